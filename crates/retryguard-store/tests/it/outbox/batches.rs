//! Batches on PostgreSQL: what they may not change about order, waits, parking and leases.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use retryguard_store::outbox::{
    AfterParking, BatchSettled, Event, Message, OutboxStore as _, PublishError, Settings, Taken, Worker,
};
use tokio::sync::Notify;

use super::{
    backends::{Place as _, Postgres, Sqlite},
    worker::quick,
};
use crate::clock;

const LONG: Duration = Duration::from_secs(600);

/// What was delivered, in its order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, message: &Message) {
        self.0.lock().unwrap().push(text(message));
    }

    fn of(&self, key: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|one| one.starts_with(key)).cloned().collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload).into_owned()
}

/// An event of a key; its payload is key and number.
fn event(key: &str, number: u32) -> Event {
    Event::new("t", format!("{key} {number}")).key(key)
}

async fn until(mut ready: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !ready().await {
            clock::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("it comes to pass");
}

fn short_leases() -> Settings {
    Settings {
        lease: Duration::from_millis(1200),
        publish_timeout: Duration::from_millis(600),
        ..quick()
    }
}

/// Every part has many of these keys, and one of them takes long: it must not keep its part from the others.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_slow_event_holds_up_its_own_key_only() {
    let place = Postgres::database().await;
    let (log, go_on) = (Log::default(), Arc::new(Notify::new()));
    let publish = {
        let (log, go_on) = (log.clone(), go_on.clone());
        move |message: Message| {
            let (log, go_on) = (log.clone(), go_on.clone());
            async move {
                if text(&message) == "slow 0" {
                    go_on.notified().await;
                }
                log.note(&message);
                Ok(())
            }
        }
    };
    let keys: Vec<String> = (0..256).map(|key| format!("k{key}.")).collect();
    let round = |number| -> Vec<Event> { keys.iter().map(|key| event(key, number)).collect() };
    place.put(&[event("slow", 0), event("slow", 1)]).await.unwrap();
    place.put(&round(0)).await.unwrap();
    let worker = Worker::new(place.outbox.clone(), publish, quick())
        .unwrap()
        .start();
    until(async || log.count() == keys.len()).await;
    // The part of the slow key is free again, for what comes now.
    place.put(&round(1)).await.unwrap();
    until(async || log.count() == 2 * keys.len()).await;
    assert!(log.of("slow").is_empty());
    go_on.notify_one();
    until(async || place.outbox.counts().await.unwrap().pending == 0).await;
    worker.stop().await;
    assert_eq!(log.of("slow"), ["slow 0", "slow 1"]);
    for key in &keys {
        assert_eq!(log.of(key), [format!("{key} 0"), format!("{key} 1")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn failures_wait_in_order_and_poison_is_parked() {
    for after_parking in [AfterParking::GoOn, AfterParking::Hold] {
        let place = Postgres::database().await;
        let log = Log::default();
        let publish = {
            let log = log.clone();
            move |message: Message| {
                let log = log.clone();
                async move {
                    match text(&message).as_str() {
                        "again 1" if message.failed < 3 => return Err(PublishError::retry("not now")),
                        "bad 1" => return Err(PublishError::poison("never")),
                        _ => log.note(&message),
                    }
                    Ok(())
                }
            }
        };
        for number in 0..4 {
            let events: Vec<_> = ["again", "bad", "good"].map(|key| event(key, number)).to_vec();
            place.put(&events).await.unwrap();
        }
        let settings = Settings {
            after_parking,
            ..quick()
        };
        let worker = Worker::new(place.outbox.clone(), publish, settings)
            .unwrap()
            .start();
        let held = if after_parking == AfterParking::Hold { 2 } else { 0 };
        until(async || place.outbox.counts().await.unwrap().pending == held).await;
        until(async || log.count() == 11 - usize::try_from(held).unwrap()).await;
        assert_eq!(log.of("again"), ["again 0", "again 1", "again 2", "again 3"]);
        assert_eq!(log.of("good").len(), 4);
        let bad = log.of("bad");
        if after_parking == AfterParking::Hold {
            assert_eq!(bad, ["bad 0"]);
        } else {
            assert_eq!(bad, ["bad 0", "bad 2", "bad 3"]);
        }
        let parked = place.outbox.parked(0, 10).await.unwrap();
        assert_eq!(parked.len(), 1);
        assert_eq!(
            (text(&parked[0].message).as_str(), &*parked[0].error),
            ("bad 1", "never")
        );
        if after_parking == AfterParking::Hold {
            assert!(place.outbox.discard(parked[0].message.number).await.unwrap());
            until(async || log.of("bad").len() == 3).await;
        }
        worker.stop().await;
    }
}

/// The event that ends its publisher is found among the many of a batch, and only it is parked.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn an_event_that_ends_its_publisher_is_parked() {
    let place = Postgres::database().await;
    let log = Log::default();
    let publish = {
        let log = log.clone();
        move |message: Message| {
            let log = log.clone();
            async move {
                assert_ne!(text(&message), "bad 0", "this publisher panics");
                log.note(&message);
                Ok(())
            }
        }
    };
    let mut events = vec![event("bad", 0), event("bad", 1)];
    events.extend((0..40).map(|number| Event::new("t", format!("free {number}"))));
    place.put(&events).await.unwrap();
    let settings = Settings {
        crashes: 2,
        ..short_leases()
    };
    let worker = Worker::new(place.outbox.clone(), publish, settings)
        .unwrap()
        .start();
    until(async || place.outbox.counts().await.unwrap().parked == 1).await;
    until(async || place.outbox.counts().await.unwrap().pending == 0).await;
    worker.stop().await;
    let parked = place.outbox.parked(0, 10).await.unwrap();
    assert_eq!(text(&parked[0].message), "bad 0");
    assert!(
        parked[0].error.contains("workers in a row"),
        "{}",
        parked[0].error
    );
    assert_eq!(log.of("bad"), ["bad 1"]);
    assert_eq!(log.of("free").len(), 40);
}

/// A worker that was cut off for longer than its lease finds that its parts are another's, and marks nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_lost_batch_cannot_mark() {
    let place = Postgres::database().await;
    place
        .put(&[event("a", 0), event("a", 1), event("b", 0)])
        .await
        .unwrap();
    let Taken::Batch(lost) = place.outbox.claim_batch(10, Duration::ZERO).await.unwrap() else {
        panic!("there are events");
    };
    assert_eq!(lost.lanes.iter().map(|lane| lane.events.len()).sum::<usize>(), 3);
    // The next claim is a suspicion: the first keys of the parts are looked at one by one from now on.
    until(async || place.outbox.claim_batch(10, LONG).await.unwrap() != Taken::Busy).await;
    let report = BatchSettled {
        parts: lost.parts,
        published: lost
            .lanes
            .iter()
            .flat_map(|lane| lane.events.iter().map(|event| event.number))
            .collect(),
        ..BatchSettled::default()
    };
    let answer = place.outbox.settle_batch(&report, false).await.unwrap();
    assert_eq!(answer.lost, report.parts.len());
    assert_eq!(place.outbox.counts().await.unwrap().pending, 3);
    let suspects = place.outbox.claim_exceptions(10, 10, LONG).await.unwrap();
    assert_eq!(suspects.len(), 2);
    assert!(
        suspects
            .iter()
            .all(|lane| lane.crashes == 1 && lane.events.len() == 1)
    );
}

/// A batch that stops in the middle leaves what it has not begun to others at once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn stopping_gives_the_rest_back() {
    let place = Postgres::database().await;
    let (log, stop) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let publish = {
        let (log, stop) = (log.clone(), stop.clone());
        move |message: Message| {
            let (log, stop) = (log.clone(), stop.clone());
            async move {
                stop.store(true, Ordering::SeqCst);
                clock::sleep(Duration::from_millis(20)).await;
                log.note(&message);
                Ok(())
            }
        }
    };
    let events: Vec<_> = (0..100)
        .map(|number| Event::new("t", format!("{number}")))
        .collect();
    place.put(&events).await.unwrap();
    let settings = Settings {
        concurrency: 2,
        ..quick()
    };
    let worker = Worker::new(place.outbox.clone(), publish, settings)
        .unwrap()
        .start();
    until(async || stop.load(Ordering::SeqCst)).await;
    worker.stop().await;
    let published = u64::try_from(log.count()).unwrap();
    assert!((1..100).contains(&published), "{published}");
    assert_eq!(place.outbox.counts().await.unwrap().pending, 100 - published);
    let Taken::Batch(rest) = place.outbox.claim_batch(1000, LONG).await.unwrap() else {
        panic!("the rest is free at once");
    };
    assert!(!rest.lanes.is_empty());
}

/// What was written before the clock was set back by an hour used to wait for an hour.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_clock_that_is_set_back_keeps_nothing_waiting() {
    let place = Sqlite::start().await;
    place.put(&[event("a", 0)]).await.unwrap();
    sqlx::raw_sql(
        "UPDATE retryguard_outbox_lanes SET ready_at = ready_at + 3600000000, since = since + 3600000000",
    )
    .execute(&place.pool)
    .await
    .unwrap();
    assert!(place.outbox.claim(10, 10, LONG).await.unwrap().is_empty());
    place.outbox.follow_clock().await.unwrap();
    assert_eq!(place.outbox.claim(10, 10, LONG).await.unwrap().len(), 1);

    let place = Postgres::database().await;
    place.put(&[event("a", 0)]).await.unwrap();
    sqlx::raw_sql(
        "UPDATE retryguard_outbox_parts SET ready_at = ready_at + interval '1 hour', since = since + interval '1 hour'",
    )
    .execute(&place.pool)
    .await
    .unwrap();
    assert_eq!(place.outbox.claim_batch(10, LONG).await.unwrap(), Taken::Busy);
    place.outbox.follow_clock().await.unwrap();
    let taken = place.outbox.claim_batch(10, LONG).await.unwrap();
    assert!(matches!(taken, Taken::Batch(_)), "{taken:?}");
}
