//! Batches on PostgreSQL: what they may not change about order, waits, parking and leases.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use retryguard_store::outbox::{
    AfterParking, Batch, BatchSettled, Event, Message, OutboxStore as _, PostgresOutbox, PublishError,
    Settings, Taken, Worker,
};
use tokio::sync::Notify;

use super::{
    backends::{Place as _, Postgres, Sqlite},
    worker::quick,
};
use crate::{clock, proxy::RoundTrips};

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

/// How a batch went of which every event was published.
fn published(batch: &Batch) -> BatchSettled {
    BatchSettled {
        parts: batch.parts.clone(),
        published: events(batch).iter().map(|event| event.number).collect(),
        ..BatchSettled::default()
    }
}

fn events(batch: &Batch) -> Vec<&Message> {
    batch.lanes.iter().flat_map(|lane| &lane.events).collect()
}

fn parts(batch: &Batch) -> Vec<(i16, i64)> {
    let mut parts: Vec<_> = batch
        .parts
        .iter()
        .map(|claim| (claim.part, claim.token))
        .collect();
    parts.sort_unstable();
    parts
}

fn texts(batch: &Batch) -> Vec<String> {
    events(batch).into_iter().map(text).collect()
}

fn batch(taken: Taken) -> Batch {
    match taken {
        Taken::Batch(batch) => batch,
        other => panic!("there are events, not {other:?}"),
    }
}

/// A worker goes on with the parts that it has. What is committed late has a smaller number than what was read before: it
/// comes all the same, and before what follows it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn going_on_misses_nothing() {
    let place = Postgres::database().await;
    let mut late = place.pool.begin().await.unwrap();
    place.outbox.put(&mut late, &event("late", 0)).await.unwrap();
    // More than one key of the late one's part, whichever it is.
    let keys: Vec<String> = (0..640).map(|key| format!("k{key}")).collect();
    let round: Vec<Event> = keys.iter().map(|key| event(key, 0)).collect();
    place.put(&round).await.unwrap();
    let mut seen: Vec<String> = Vec::new();
    let mut all = batch(place.outbox.claim_batch(16, LONG).await.unwrap());
    let mut late = Some(late);
    for _ in 0..1000 {
        seen.extend(texts(&all));
        if let Some(late) = late.take() {
            late.commit().await.unwrap();
            place.put(&[event("late", 1)]).await.unwrap();
        }
        let settled = published(&all);
        let going_on = place.outbox.settle_and_go_on(&settled, false, 16, LONG);
        let (report, next) = going_on.await.unwrap();
        assert_eq!((report.lost, report.tokens.len()), (0, 0));
        let next = batch(next);
        assert_eq!(parts(&next), parts(&all), "they are kept, empty or not");
        all = next;
        if events(&all).is_empty() {
            place.outbox.settle_batch(&published(&all), false).await.unwrap();
            match place.outbox.claim_batch(16, LONG).await.unwrap() {
                Taken::Batch(next) => all = next,
                Taken::Nothing => break,
                Taken::Busy => panic!("all parts were given back"),
            }
        }
    }
    assert_eq!(place.outbox.counts().await.unwrap().pending, 0);
    let late: Vec<_> = seen.iter().filter(|one| one.starts_with("late")).collect();
    assert_eq!(late, ["late 0", "late 1"]);
    seen.sort();
    let count = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), count), (keys.len() + 2, keys.len() + 2), "each once");
}

/// The answer of a report may be lost: the report is sent again, or the parts are given back by another statement. A worker
/// whose parts are another's changes nothing and gets nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn going_on_again_is_harmless_and_after_the_lease_nothing() {
    for keep in [false, true] {
        let place = Postgres::database().await;
        place
            .put(&[event("a", 0), event("a", 1), event("a", 2)])
            .await
            .unwrap();
        let first = batch(place.outbox.claim_batch(1, LONG).await.unwrap());
        assert_eq!(texts(&first), ["a 0"]);
        let report = published(&first);
        for _ in 0..2 {
            let (answer, next) = place
                .outbox
                .settle_and_go_on(&report, keep, 1, LONG)
                .await
                .unwrap();
            assert_eq!((answer.lost, texts(&batch(next))), (0, vec!["a 1".to_owned()]));
        }
        assert_eq!(place.outbox.settle_batch(&report, keep).await.unwrap().lost, 0);
        assert_eq!(place.outbox.counts().await.unwrap().pending, 2);
        let second = batch(place.outbox.claim_batch(1, LONG).await.unwrap());
        assert_eq!(texts(&second), ["a 1"]);
        let (answer, next) = place
            .outbox
            .settle_and_go_on(&report, keep, 1, LONG)
            .await
            .unwrap();
        assert_eq!((answer.lost, next), (first.parts.len(), Taken::Nothing));
        let published = published(&second);
        let lost = BatchSettled {
            parts: first.parts,
            ..published
        };
        place.outbox.settle_and_go_on(&lost, keep, 1, LONG).await.unwrap();
        assert_eq!(
            place.outbox.counts().await.unwrap().pending,
            2,
            "nothing is marked"
        );
    }
}

/// A claim reads parts and events in one statement. A part that another worker gives back at that moment must not be read as
/// it was before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL"]
async fn parts_that_go_from_hand_to_hand_give_every_event_once() {
    let place = Postgres::database().await;
    let keys: Vec<Event> = (0..64).map(|key| event(&format!("k{key}"), 0)).collect();
    for _ in 0..60 {
        place.put(&keys).await.unwrap();
    }
    let workers: Vec<_> = (0..6)
        .map(|_| {
            let outbox = place.outbox.clone();
            tokio::spawn(async move {
                let mut seen: Vec<i64> = Vec::new();
                loop {
                    match outbox.claim_batch(8, LONG).await.unwrap() {
                        Taken::Nothing => return seen,
                        Taken::Busy => tokio::task::yield_now().await,
                        Taken::Batch(batch) => {
                            let report = published(&batch);
                            seen.extend(&report.published);
                            outbox.settle_batch(&report, false).await.unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    for worker in workers {
        seen.extend(worker.await.unwrap());
    }
    seen.sort_unstable();
    let count = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), count), (64 * 60, 64 * 60));
}

/// Counted on the wire, on one connection that knows its statements.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_claim_is_one_round_trip_and_so_is_going_on() {
    let place = Postgres::database().await;
    let port = place.url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
    let trips = RoundTrips::to(port.parse().unwrap()).await;
    let url = place
        .url
        .replace(&format!(":{port}/"), &format!(":{}/", trips.port()));
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .connect(&url)
        .await
        .unwrap();
    let outbox = PostgresOutbox::new(pool.clone());
    let all: Vec<Event> = (0..8).map(|number| event("a", number)).collect();
    place.put(&all).await.unwrap();
    let count = async || {
        // sqlx asks whether the connection lives when it is given back; the worker does not wait for that.
        while pool.num_idle() == 0 {
            clock::sleep(Duration::from_millis(1)).await;
        }
        let sent = trips.take();
        sent.iter().filter(|sent| sent.first() != Some(&b'S')).count()
    };
    // The first of each prepares its statement.
    for is_first in [true, false] {
        count().await;
        let first = batch(outbox.claim_batch(1, LONG).await.unwrap());
        let claimed = count().await;
        let settled = published(&first);
        let going_on = outbox.settle_and_go_on(&settled, false, 1, LONG);
        let second = batch(going_on.await.unwrap().1);
        let gone_on = count().await;
        outbox.settle_batch(&published(&second), false).await.unwrap();
        let settled = count().await;
        if !is_first {
            assert_eq!((claimed, gone_on, settled), (1, 1, 1));
        }
    }
    assert_eq!(place.outbox.counts().await.unwrap().pending, 4);
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
