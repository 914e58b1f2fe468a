//! What only PostgreSQL can get wrong: transactions that are open side by side.

use std::time::Duration;

use retryguard_store::{
    migrations,
    outbox::{Event, Message, OutboxStore, Settings, Settled, Worker},
};

use super::{backends::Postgres, worker::quick};
use crate::clock;

const LONG: Duration = Duration::from_secs(600);

fn event(payload: &'static str) -> Event {
    Event::new("t", payload).key("a")
}

/// The number of an event is drawn when it is written, and what counts is when it is committed. Without a lock
/// the second would be published before the first is there.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn events_of_one_key_come_in_the_order_of_their_commits() {
    let place = Postgres::database().await;
    let mut first = place.pool.begin().await.unwrap();
    place.outbox.put(&mut first, &event("1")).await.unwrap();
    let second = tokio::spawn({
        let (pool, outbox) = (place.pool.clone(), place.outbox.clone());
        async move {
            let mut second = pool.begin().await.unwrap();
            outbox.put(&mut second, &event("2")).await.unwrap();
            second.commit().await.unwrap();
        }
    });
    // Another key is not kept waiting.
    let mut other = place.pool.begin().await.unwrap();
    place.outbox.put(&mut other, &event("3").key("b")).await.unwrap();
    other.commit().await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting)
        .fetch_one(&place.pool)
        .await
        .unwrap()
        == 0
    {
        assert!(!second.is_finished(), "it waits for the first to be committed");
        clock::sleep(Duration::from_millis(10)).await;
    }
    let claimed = place.outbox.claim(10, 10, LONG).await.unwrap();
    assert_eq!(
        claimed.len(),
        1,
        "the first is not there yet, so nor is the second"
    );
    first.commit().await.unwrap();
    second.await.unwrap();
    let claimed = place.outbox.claim(10, 10, LONG).await.unwrap();
    let payloads: Vec<_> = claimed[0].events.iter().map(|event| &event.payload[..]).collect();
    assert_eq!(payloads, [b"1", b"2"]);
}

/// A worker ends a lane while a transaction that it cannot see has written to it: the lane must stay.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_event_that_is_written_while_its_key_ends_is_not_lost() {
    let place = Postgres::database().await;
    let mut first = place.pool.begin().await.unwrap();
    place.outbox.put(&mut first, &event("1")).await.unwrap();
    first.commit().await.unwrap();
    let claimed = place.outbox.claim(10, 10, LONG).await.unwrap();
    let mut open = place.pool.begin().await.unwrap();
    place.outbox.put(&mut open, &event("2")).await.unwrap();
    let settled = Settled {
        lane: claimed[0].lane.clone(),
        token: claimed[0].token,
        published: vec![claimed[0].events[0].number],
        parked: Vec::new(),
        retry: None,
        hold: false,
    };
    assert_eq!(place.outbox.settle(&[settled], true).await.unwrap(), 0);
    open.commit().await.unwrap();
    let found = async {
        loop {
            let claimed = place.outbox.claim(10, 10, LONG).await.unwrap();
            if let Some(lane) = claimed.first().filter(|lane| !lane.events.is_empty()) {
                return lane.events[0].payload.clone();
            }
        }
    };
    let payload = tokio::time::timeout(Duration::from_secs(30), found)
        .await
        .unwrap();
    assert_eq!(payload, "2");
}

/// A worker that looks once in an hour is woken by another process's pool.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_worker_of_another_process_is_woken() {
    let place = Postgres::database().await;
    let (send, mut published) = tokio::sync::mpsc::unbounded_channel();
    let publish = move |message: Message| {
        let send = send.clone();
        async move {
            send.send(message.number).unwrap();
            Ok(())
        }
    };
    let settings = Settings {
        poll: Duration::from_secs(3600),
        ..quick()
    };
    let worker = Worker::new(place.outbox.clone(), publish, settings)
        .unwrap()
        .start();
    let other = Postgres::at(&place.url).await;
    let woken = async {
        // The first signal may come before the worker listens, so it is sent until one is received.
        loop {
            let mut transaction = other.pool.begin().await.unwrap();
            other.outbox.put(&mut transaction, &event("1")).await.unwrap();
            transaction.commit().await.unwrap();
            other.outbox.wake();
            let wait = tokio::time::timeout(Duration::from_secs(2), published.recv());
            if wait.await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), woken)
        .await
        .unwrap();
    worker.stop().await;
}

/// Every process migrates when it starts, and they start together.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn migrations_may_run_side_by_side_and_again() {
    let (_server, url) = crate::servers::postgres_database().await;
    let processes = (0..6).map(|_| {
        let url = url.clone();
        tokio::spawn(async move {
            let pool = super::backends::postgres_pool(&url).await;
            migrations::postgres(&pool).await
        })
    });
    for process in processes.collect::<Vec<_>>() {
        process.await.unwrap().unwrap();
    }
}
