//! The worker, on memory and SQLite, and on what the databases share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use retryguard_core::backoff::{Backoff, Growth, Jitter};
use retryguard_store::outbox::{
    AfterParking, Event, MemoryOutbox, Message, OutboxStore, PublishError, Settings, Worker,
};

use super::backends::{Place, Postgres, Sqlite};
use crate::clock;

/// Far longer than anything here takes.
const AT_MOST: Duration = Duration::from_secs(60);

pub(crate) fn quick() -> Settings {
    Settings {
        poll: Duration::from_millis(5),
        backoff: Backoff {
            growth: Growth::Constant,
            initial: Duration::from_millis(1),
            jitter: Jitter::None,
            ..Backoff::default()
        },
        ..Settings::default()
    }
}

/// What was delivered, key by key.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<HashMap<String, Vec<u32>>>>);

impl Seen {
    fn note(&self, message: &Message) {
        let key = message.key.clone().unwrap_or_default();
        let number = String::from_utf8_lossy(&message.payload).parse().unwrap();
        self.0.lock().unwrap().entry(key).or_default().push(number);
    }

    fn of(&self, key: &str) -> Vec<u32> {
        self.0.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

async fn until(mut ready: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !ready().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AT_MOST, wait)
        .await
        .expect("it comes to pass");
}

async fn drained(place: &impl Place) {
    until(async || place.store().counts().await.unwrap().pending == 0).await;
}

fn event(key: u32, number: u32) -> Event {
    Event::new("t", number.to_string()).key(key.to_string())
}

async fn several_workers_keep_the_order(place: &impl Place) {
    let seen = Seen::default();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let seen = seen.clone();
            let publish = move |message: Message| {
                let seen = seen.clone();
                async move {
                    tokio::task::yield_now().await;
                    seen.note(&message);
                    Ok(())
                }
            };
            Worker::new(place.store().clone(), publish, quick())
                .unwrap()
                .start()
        })
        .collect();
    for number in 0..40 {
        let events: Vec<Event> = (0..10).map(|key| event(key, number)).collect();
        place.put(&events).await.unwrap();
    }
    drained(place).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(seen.len(), 400, "nothing failed, so nothing came twice");
    let order: Vec<u32> = (0..40).collect();
    assert!((0..10).all(|key| seen.of(&key.to_string()) == order));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_workers_keep_the_order_in_memory() {
    several_workers_keep_the_order(&MemoryOutbox::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_workers_keep_the_order_in_sqlite() {
    several_workers_keep_the_order(&Sqlite::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn several_workers_keep_the_order_in_postgres() {
    let place = Postgres::database().await;
    several_workers_keep_the_order(&place).await;
}

/// Fails twice for every event: each is retried until it succeeds, and its successors wait for it.
#[tokio::test]
async fn failures_are_retried_in_order() {
    let place = MemoryOutbox::new();
    let seen = Seen::default();
    let publish = {
        let seen = seen.clone();
        move |message: Message| {
            let seen = seen.clone();
            async move {
                if message.failed < 2 {
                    return Err(PublishError::retry("not yet"));
                }
                seen.note(&message);
                Ok(())
            }
        }
    };
    let worker = Worker::new(place.clone(), publish, quick()).unwrap().start();
    place.put(&[event(1, 1), event(1, 2), event(1, 3)]).unwrap();
    drained(&place).await;
    worker.stop().await;
    assert_eq!(seen.of("1"), [1, 2, 3]);
}

async fn parking(after_parking: AfterParking, error: PublishError, tries: u32) -> (Seen, MemoryOutbox) {
    let place = MemoryOutbox::new();
    let seen = Seen::default();
    let publish = {
        let seen = seen.clone();
        move |message: Message| {
            let (seen, error) = (seen.clone(), error.clone());
            async move {
                if message.payload == "1" {
                    return Err(error);
                }
                seen.note(&message);
                Ok(())
            }
        }
    };
    let settings = Settings {
        after_parking,
        tries,
        ..quick()
    };
    let worker = Worker::new(place.clone(), publish, settings).unwrap().start();
    place.put(&[event(1, 1), event(1, 2), event(2, 2)]).unwrap();
    until(async || !place.parked(0, 1).await.unwrap().is_empty()).await;
    until(async || seen.of("2") == [2]).await;
    if after_parking == AfterParking::GoOn {
        drained(&place).await;
    }
    worker.stop().await;
    (seen, place)
}

#[tokio::test]
async fn an_event_is_parked_after_its_tries_and_the_key_goes_on() {
    let (seen, place) = parking(AfterParking::GoOn, PublishError::retry("down"), 3).await;
    assert_eq!(seen.of("1"), [2]);
    let parked = place.parked(0, 10).await.unwrap();
    assert_eq!((parked[0].message.failed, &*parked[0].error), (3, "down"));
}

#[tokio::test]
async fn a_poisonous_event_is_parked_at_once_and_holds_its_key() {
    let (seen, place) = parking(AfterParking::Hold, PublishError::poison("nonsense"), 3).await;
    assert!(seen.of("1").is_empty());
    let parked = place.parked(0, 10).await.unwrap();
    assert_eq!((parked[0].message.failed, &*parked[0].error), (1, "nonsense"));
}

/// The schedule of waits may end before the tries do.
#[tokio::test]
async fn an_event_is_parked_when_the_waits_end() {
    let place = MemoryOutbox::new();
    let publish = |_: Message| async { Err(PublishError::retry("down")) };
    let mut settings = quick();
    settings.backoff.growth = Growth::Linear;
    settings.backoff.stop_beyond = Some(2 * settings.backoff.initial);
    let worker = Worker::new(place.clone(), publish, settings).unwrap().start();
    place.put(&[event(1, 1)]).unwrap();
    until(async || !place.parked(0, 1).await.unwrap().is_empty()).await;
    worker.stop().await;
    assert_eq!(place.parked(0, 1).await.unwrap()[0].message.failed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_hangs_is_given_up() {
    let place = MemoryOutbox::new();
    let publish = |_: Message| std::future::pending();
    let settings = Settings { tries: 1, ..quick() };
    let worker = Worker::new(place.clone(), publish, settings).unwrap().start();
    place.put(&[event(1, 1)]).unwrap();
    clock::sleep(Duration::from_secs(15)).await;
    let parked = place.parked(0, 1).await.unwrap();
    assert_eq!(parked[0].error, "publishing did not end within 10s");
    worker.stop().await;
}

/// A publisher that panics loses its lease; after enough of them the event is parked, and its key goes on.
#[tokio::test(start_paused = true)]
async fn an_event_that_ends_its_worker_is_parked() {
    let place = MemoryOutbox::new();
    let seen = Seen::default();
    let publish = {
        let seen = seen.clone();
        move |message: Message| {
            let seen = seen.clone();
            async move {
                assert!(message.payload != "1", "on purpose");
                seen.note(&message);
                Ok(())
            }
        }
    };
    let settings = Settings {
        crashes: 3,
        ..quick()
    };
    let worker = Worker::new(place.clone(), publish, settings).unwrap().start();
    place.put(&[event(1, 1), event(1, 2)]).unwrap();
    clock::sleep(Duration::from_secs(200)).await;
    worker.stop().await;
    assert_eq!(seen.of("1"), [2]);
    let error = &place.parked(0, 1).await.unwrap()[0].error;
    assert_eq!(error, "3 workers in a row ended while they published its key");
}

/// What is under way when it stops is ended and told; what is not begun is free for another worker at once.
#[tokio::test]
async fn stopping_is_polite() {
    let place = MemoryOutbox::new();
    let seen = Seen::default();
    let (begun, mut wait_begun) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let publish = {
        let (seen, gate) = (seen.clone(), gate.clone());
        move |message: Message| {
            let (seen, gate, begun) = (seen.clone(), gate.clone(), begun.clone());
            async move {
                begun.send(()).unwrap();
                gate.acquire().await.unwrap().forget();
                seen.note(&message);
                Ok(())
            }
        }
    };
    place.put(&[event(1, 1), event(1, 2)]).unwrap();
    let worker = Worker::new(place.clone(), publish, quick()).unwrap().start();
    wait_begun.recv().await.unwrap();
    let stop = worker.stop();
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        biased;
        () = &mut stop => panic!("it stopped in the middle of an event"),
        () = tokio::task::yield_now() => {}
    }
    // The worker must have seen the word before the event ends.
    clock::sleep(Duration::from_millis(50)).await;
    gate.add_permits(10);
    tokio::time::timeout(AT_MOST, stop).await.unwrap();
    assert_eq!(seen.of("1"), [1]);
    let left = place.claim(1, 10, AT_MOST).await.unwrap();
    assert_eq!(
        (left.len(), left[0].crashes),
        (1, 0),
        "given back before its lease ends"
    );
    assert_eq!(left[0].events[0].payload, "2");
}

/// An event of a transaction that was rolled back never was.
#[tokio::test]
async fn a_rolled_back_event_is_not_published() {
    let place = Sqlite::start().await;
    let mut transaction = place.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    place.outbox.put(&mut transaction, &event(1, 1)).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(place.outbox.claim(10, 10, AT_MOST).await.unwrap().is_empty());
    assert_eq!(place.outbox.counts().await.unwrap().pending, 0);
}
