//! Consumers of a log and of a queue, over a broker that delivers too often: every message has its effect once.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retryguard_store::{
    StoreError,
    inbox::{
        Consumer, Delivered, Delivery, Failure, OnceError, PostgresInbox, Source, SqliteInbox,
        TransactionalInbox, once,
    },
    migrations,
};
use sqlx::{PgPool, SqlitePool};

use crate::{clock, servers};

const MESSAGES: usize = 30;

/// A message of a log or of a queue.
#[derive(Debug, Clone)]
struct Record {
    offset: usize,
    delivered_before: u32,
}

impl Delivery for Record {
    fn id(&self) -> Cow<'_, str> {
        format!("orders/0/{}", self.offset).into()
    }

    fn delivered_before(&self) -> u32 {
        self.delivered_before
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the broker is away")]
struct Away;

/// One partition of a log: what comes next is what was acknowledged last, and acknowledging fails every third time.
#[derive(Debug, Default)]
struct Log {
    position: usize,
    committed: Arc<AtomicUsize>,
    acknowledged: usize,
    put_aside: Arc<Mutex<Vec<Failure>>>,
}

impl Source for Log {
    type Message = Record;
    type Error = Away;

    async fn receive(&mut self) -> Result<Option<Record>, Away> {
        if self.position == MESSAGES {
            return Ok(None);
        }
        self.position += 1;
        Ok(Some(Record {
            offset: self.position - 1,
            delivered_before: 0,
        }))
    }

    async fn acknowledge(&mut self, message: Record) -> Result<(), Away> {
        self.acknowledged += 1;
        if self.acknowledged.is_multiple_of(3) {
            return Err(Away);
        }
        self.committed.store(message.offset + 1, Ordering::SeqCst);
        Ok(())
    }

    async fn failed(&mut self, message: Record, failure: &Failure) -> Result<Option<Record>, Away> {
        if !failure.last {
            return Ok(Some(message));
        }
        self.put_aside.lock().unwrap().push(failure.clone());
        self.committed.store(message.offset + 1, Ordering::SeqCst);
        Ok(None)
    }
}

/// A queue that delivers what was not deleted again, and some of what was.
#[derive(Debug, Default)]
struct Queue {
    visible: VecDeque<Record>,
    dead: Vec<(usize, u32)>,
    deleted: usize,
}

impl Source for Queue {
    type Message = Record;
    type Error = Away;

    async fn receive(&mut self) -> Result<Option<Record>, Away> {
        Ok(self.visible.pop_front())
    }

    async fn acknowledge(&mut self, mut message: Record) -> Result<(), Away> {
        self.deleted += 1;
        // Standard queues deliver at least once.
        if message.delivered_before == 0 && message.offset.is_multiple_of(4) {
            message.delivered_before = 1;
            self.visible.push_back(message);
        }
        Ok(())
    }

    async fn failed(&mut self, mut message: Record, failure: &Failure) -> Result<Option<Record>, Away> {
        assert!(failure.wait > Duration::ZERO);
        if failure.last {
            self.dead.push((message.offset, failure.tries));
        } else {
            message.delivered_before = failure.tries;
            self.visible.push_back(message);
        }
        Ok(None)
    }
}

fn quick() -> retryguard_core::backoff::Backoff {
    retryguard_core::backoff::Backoff {
        growth: retryguard_core::backoff::Growth::Constant,
        initial: Duration::from_millis(1),
        cap: Duration::from_millis(1),
        jitter: retryguard_core::backoff::Jitter::None,
        stop_beyond: None,
    }
}

const TABLE: &str = "CREATE TABLE effects (message BIGINT NOT NULL)";
/// Fails for ever, and twice.
const POISON: usize = 7;
const SHAKY: usize = 11;

/// The effect of one message; the tries of the shaky one are counted outside of the transaction.
fn check(message: &Record, shaky: &AtomicUsize) -> Result<(), &'static str> {
    match message.offset {
        POISON => Err("no such order"),
        SHAKY if shaky.fetch_add(1, Ordering::SeqCst) < 2 => Err("not yet"),
        _ => Ok(()),
    }
}

async fn sqlite_effect(
    transaction: &mut sqlx::Transaction<'static, sqlx::Sqlite>,
    message: &Record,
) -> Result<(), &'static str> {
    let insert = sqlx::query("INSERT INTO effects VALUES (?)").bind(number(message));
    let done = insert.execute(&mut **transaction).await;
    done.map(drop).map_err(|_| "the database failed")
}

fn number(message: &Record) -> i64 {
    i64::try_from(message.offset).unwrap()
}

/// All but the poison, in their order for a log.
fn all_but_poison() -> Vec<i64> {
    (0..MESSAGES)
        .filter(|offset| *offset != POISON)
        .map(|offset| i64::try_from(offset).unwrap())
        .collect()
}

async fn sqlite() -> (tempfile::TempDir, SqlitePool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    let pool = crate::idempotency::sqlite_pool(&file.to_string_lossy()).await;
    migrations::sqlite(&pool).await.unwrap();
    sqlx::raw_sql(TABLE).execute(&pool).await.unwrap();
    (folder, pool)
}

async fn effects(pool: &SqlitePool) -> Vec<i64> {
    let all = sqlx::query_scalar("SELECT message FROM effects ORDER BY rowid");
    all.fetch_all(pool).await.unwrap()
}

/// The process ends whenever acknowledging fails, and its successor begins at what was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_offsets_are_lost_has_every_effect_once_and_in_order() {
    let (_folder, pool) = sqlite().await;
    let committed = Arc::new(AtomicUsize::new(0));
    let put_aside = Arc::new(Mutex::new(Vec::new()));
    let shaky = Arc::new(AtomicUsize::new(0));
    let mut restarts = 0;
    loop {
        let log = Log {
            position: committed.load(Ordering::SeqCst),
            committed: committed.clone(),
            put_aside: put_aside.clone(),
            acknowledged: restarts,
        };
        let inbox = SqliteInbox::new("mailer").unwrap().on(pool.clone());
        let shaky = shaky.clone();
        let consumer = Consumer::new(log, inbox, move |transaction, message| {
            let shaky = shaky.clone();
            Box::pin(async move {
                sqlite_effect(transaction, message).await?;
                check(message, &shaky)
            })
        })
        .tries(4)
        .backoff(quick());
        // In a task of its own, as a program runs it.
        let ended = tokio::spawn(consumer.run(std::future::pending())).await.unwrap();
        if ended.is_ok() {
            break;
        }
        restarts += 1;
        assert!(restarts < 10 * MESSAGES, "it does not get on");
    }
    assert!(restarts > MESSAGES / 4, "{restarts} restarts say little");
    assert_eq!(effects(&pool).await, all_but_poison());
    let put_aside = put_aside.lock().unwrap().clone();
    assert_eq!(put_aside.len(), 1);
    assert_eq!(
        (put_aside[0].tries, put_aside[0].error.as_str()),
        (4, "no such order")
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_queue_that_delivers_twice_has_every_effect_once() {
    let (_server, url) = servers::postgres_database().await;
    let pool = PgPool::connect(&url).await.unwrap();
    migrations::postgres(&pool).await.unwrap();
    sqlx::raw_sql(TABLE).execute(&pool).await.unwrap();
    let shaky = Arc::new(AtomicUsize::new(0));
    // Several receivers, each with a part of the messages and some of another's.
    let mut running = Vec::new();
    for receiver in 0..3 {
        let visible = (0..MESSAGES)
            .filter(|offset| offset % 3 == receiver || offset % 5 == 0)
            .map(|offset| Record {
                offset,
                delivered_before: 0,
            })
            .collect();
        let queue = Queue {
            visible,
            ..Queue::default()
        };
        let inbox = PostgresInbox::new("mailer").unwrap().on(pool.clone());
        let shaky = shaky.clone();
        let consumer = Consumer::new(queue, inbox, move |transaction, message| {
            let shaky = shaky.clone();
            Box::pin(async move {
                let insert = sqlx::query("INSERT INTO effects VALUES ($1)").bind(number(message));
                insert
                    .execute(&mut **transaction)
                    .await
                    .map_err(|_| "the database failed")?;
                check(message, &shaky)
            })
        })
        .tries(3)
        .backoff(quick());
        running.push(tokio::spawn(consumer.run(std::future::pending())));
    }
    let mut dead = Vec::new();
    for consumer in running {
        dead.extend(consumer.await.unwrap().unwrap().dead);
    }
    assert_eq!(dead, [(POISON, 3)]);
    let all: Vec<i64> = sqlx::query_scalar("SELECT message FROM effects ORDER BY message")
        .fetch_all(&pool)
        .await
        .unwrap();
    assert_eq!(all, all_but_poison());
}

/// A loop of one's own: the function alone.
#[tokio::test]
async fn once_rolls_back_what_failed() {
    let (_folder, pool) = sqlite().await;
    let inbox = SqliteInbox::new("mailer").unwrap().on(pool.clone());
    let one = Record {
        offset: 1,
        delivered_before: 0,
    };
    let failed = once(&inbox, "a", |transaction| {
        Box::pin(async move {
            let one = Record {
                offset: 1,
                delivered_before: 0,
            };
            sqlite_effect(transaction, &one).await?;
            Err("changed my mind")
        })
    });
    assert!(matches!(failed.await, Err(OnceError::Handler("changed my mind"))));
    assert!(effects(&pool).await.is_empty());
    for delivered in [Delivered::First, Delivered::Again] {
        let one = one.clone();
        let done = once(&inbox, "a", |transaction| {
            Box::pin(async move { sqlite_effect(transaction, &one).await })
        });
        assert_eq!(done.await.unwrap(), delivered);
    }
    assert_eq!(effects(&pool).await, [1]);
    let error = inbox.begin("").await.unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
}

/// A database that is away is waited for: it costs the message none of its tries.
#[tokio::test]
async fn a_database_that_is_away_costs_no_tries() {
    /// Fails some times before it works.
    struct Shaky<I> {
        inbox: I,
        failures: AtomicUsize,
    }
    impl<I: TransactionalInbox> TransactionalInbox for Shaky<I> {
        type Transaction = I::Transaction;

        async fn begin(&self, id: &str) -> Result<Option<I::Transaction>, StoreError> {
            if self.failures.fetch_add(1, Ordering::SeqCst) < 5 {
                return Err(StoreError::Slow {
                    backend: retryguard_store::Backend::Sqlite,
                    waited: Duration::from_millis(1),
                });
            }
            self.inbox.begin(id).await
        }

        async fn commit(&self, transaction: I::Transaction) -> Result<(), StoreError> {
            self.inbox.commit(transaction).await
        }
    }
    let (_folder, pool) = sqlite().await;
    let queue = Queue {
        visible: [Record {
            offset: 1,
            delivered_before: 0,
        }]
        .into(),
        ..Queue::default()
    };
    let inbox = Shaky {
        inbox: SqliteInbox::new("mailer").unwrap().on(pool.clone()),
        failures: AtomicUsize::new(0),
    };
    let consumer = Consumer::new(queue, inbox, |transaction, message| {
        Box::pin(sqlite_effect(transaction, message))
    });
    let queue = consumer
        .tries(1)
        .backoff(quick())
        .run(std::future::pending())
        .await
        .unwrap();
    assert_eq!((queue.deleted, queue.dead.len()), (1, 0));
    assert_eq!(effects(&pool).await, [1]);
    // Stopped before it receives anything.
    let queue = Queue::default();
    let inbox = SqliteInbox::new("mailer").unwrap().on(pool);
    let never = Consumer::new(queue, inbox, |_, _| Box::pin(async { Err("not called") }));
    never.run(clock::sleep(Duration::ZERO)).await.unwrap();
}
