//! PostgreSQL is killed, stopped and held still while events are written and published: the worker recovers by
//! itself, and what was acknowledged is published once and in order.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use retryguard_store::{
    StoreError,
    inbox::MemoryInbox,
    migrations,
    outbox::{Event, Message, OutboxStore, PostgresOutbox, Settings, Worker},
};
use sqlx::postgres::PgPoolOptions;

use super::worker::quick;
use crate::clock;

/// How long the application waits for its database.
const PATIENCE: Duration = Duration::from_secs(1);

/// The consumer's effects, in the order in which it had them.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<u64>>>);

impl Effects {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn the_worker_recovers_by_itself() {
    let mut server = retryguard_parts::Postgres::start();
    let pool = PgPoolOptions::new()
        .max_connections(6)
        .acquire_timeout(PATIENCE)
        .connect(&server.url())
        .await
        .unwrap();
    migrations::postgres(&pool).await.unwrap();
    let outbox = PostgresOutbox::new(pool.clone()).limit(PATIENCE);
    let (effects, inbox) = (Effects::default(), MemoryInbox::new());
    let publish = {
        let effects = effects.clone();
        move |message: Message| {
            let (effects, inbox) = (effects.clone(), inbox.clone());
            async move {
                if let Some(first) = inbox.first(&message.id).await.unwrap() {
                    let value = String::from_utf8_lossy(&message.payload).parse().unwrap();
                    effects.0.lock().unwrap().push(value);
                    first.done();
                }
                Ok(())
            }
        }
    };
    let settings = Settings {
        lease: Duration::from_secs(3),
        publish_timeout: Duration::from_secs(1),
        poll: Duration::from_millis(50),
        ..quick()
    };
    let worker = Worker::new(outbox.clone(), publish, settings).unwrap().start();
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(pool.clone(), outbox.clone(), done.clone()));

    more(&effects).await;
    server.process().kill();
    clock::sleep(Duration::from_secs(1)).await;
    server.restart();
    more(&effects).await;

    server.process().stop(Duration::from_secs(20));
    clock::sleep(Duration::from_secs(1)).await;
    server.restart();
    more(&effects).await;

    let held = family(server.process().id());
    signal("-STOP", &held);
    clock::sleep(Duration::from_secs(4)).await;
    // While it is held still, a question ends with a clear error and within its time.
    let asked = outbox.counts();
    let answer = tokio::time::timeout(3 * PATIENCE, asked)
        .await
        .expect("it does not hang");
    let error = answer.unwrap_err();
    assert!(
        matches!(error, StoreError::Slow { .. } | StoreError::Unreachable { .. }),
        "{error}"
    );
    signal("-CONT", &held);
    more(&effects).await;

    done.store(true, Ordering::Relaxed);
    let (acknowledged, unknown) = writer.await.unwrap();
    let drained = async {
        while !outbox.counts().await.is_ok_and(|counts| counts.pending == 0) {
            clock::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), drained)
        .await
        .unwrap();
    worker.stop().await;
    let effects = effects.0.lock().unwrap().clone();
    eprintln!(
        "postgres away three times: {} acknowledged, {} unknown, {} effects",
        acknowledged.len(),
        unknown.len(),
        effects.len()
    );
    assert!(effects.is_sorted(), "one key, so one order: {effects:?}");
    let known: Vec<u64> = effects
        .iter()
        .copied()
        .filter(|value| !unknown.contains(value))
        .collect();
    assert_eq!(known, acknowledged, "each that was acknowledged, once");
}

/// Writes one event after the other until it is instructed to end; which were acknowledged, and of which the end of the
/// transaction is not known.
async fn write(pool: sqlx::PgPool, outbox: PostgresOutbox, done: Arc<AtomicBool>) -> (Vec<u64>, Vec<u64>) {
    let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
    for value in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let event = Event::new("t", value.to_string()).key("a");
        let work = async {
            let mut transaction = pool.begin().await.map_err(|_| false)?;
            outbox.put(&mut transaction, &event).await.map_err(|_| false)?;
            transaction.commit().await.map_err(|_| true)
        };
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(Ok(())) => {
                acknowledged.push(value);
                outbox.wake();
            }
            Ok(Err(false)) => {}
            Ok(Err(true)) | Err(_) => unknown.push(value),
        }
        clock::sleep(Duration::from_millis(5)).await;
    }
    (acknowledged, unknown)
}

/// Waits until twenty more events have had their effect.
async fn more(effects: &Effects) {
    let enough = effects.len() + 20;
    let wait = async {
        while effects.len() < enough {
            clock::sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, wait)
        .await
        .expect("events flow again");
}

/// The process and its children: PostgreSQL has one for every connection.
fn family(id: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let children = children.split_whitespace().map(str::to_owned);
    std::iter::once(id.to_string()).chain(children).collect()
}

fn signal(signal: &str, ids: &[String]) {
    // Fails for those that have ended.
    let _ = Command::new("kill").arg(signal).args(ids).status().unwrap();
}
