//! Worker processes are killed at random points, again and again, while events are written. Afterwards every
//! event has been delivered at least once and has had its effect exactly once, in the order of its key.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use retryguard_parts::Process;
use retryguard_store::{
    inbox::{PostgresInbox, SqliteInbox},
    outbox::{Event, Message, OutboxStore, PublishError, Settings, Worker},
};

use super::{
    backends::{Postgres, Sqlite, postgres_pool, sqlite_pool},
    worker::quick,
};
use crate::{clock, servers};

/// Where `RETRYGUARD_TEST_KILLS` is not set.
const KILLS: usize = 200;
const PROCESSES: usize = 3;
/// What must have been written, and what must have had its effect, before the last kill.
const WRITTEN: i64 = 500;
const DONE: i64 = 100;
const KEYS: u64 = 12;
/// Says to a process of this program that it is a worker, and where its database is.
const ROLE: &str = "RETRYGUARD_TEST_OUTBOX_WORKER";

/// No event is parked, however often it fails or its worker is killed; leases end soon.
fn settings() -> Settings {
    Settings {
        lease: Duration::from_millis(1500),
        publish_timeout: Duration::from_millis(700),
        tries: u32::MAX,
        crashes: u32::MAX,
        concurrency: 4,
        batch: 12,
        poll: Duration::from_millis(20),
        ..quick()
    }
}

/// Not a test by itself: what the killed processes run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Ok(address) = std::env::var(ROLE) else { return };
    match address.strip_prefix("file:") {
        Some(file) => {
            let pool = sqlite_pool(Path::new(file)).await;
            let outbox = retryguard_store::outbox::SqliteOutbox::new(pool.clone());
            let publish = move |message: Message| deliver_sqlite(pool.clone(), message);
            let worker = Worker::new(outbox, publish, settings()).unwrap();
            worker.run(std::future::pending()).await;
        }
        None => {
            let pool = postgres_pool(&address).await;
            let outbox = retryguard_store::outbox::PostgresOutbox::new(pool.clone());
            let publish = move |message: Message| deliver_postgres(pool.clone(), message);
            let worker = Worker::new(outbox, publish, settings()).unwrap();
            worker.run(std::future::pending()).await;
        }
    }
}

/// The consumer: notes the delivery, then has its effect together with its mark.
async fn deliver_sqlite(pool: sqlx::SqlitePool, message: Message) -> Result<(), PublishError> {
    let (key, value) = (message.key.clone().unwrap_or_default(), value(&message));
    let work = async {
        let note = sqlx::query("INSERT INTO deliveries (event) VALUES (?)").bind(&message.id);
        note.execute(&pool).await.map_err(PublishError::retry)?;
        let mut transaction = pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(PublishError::retry)?;
        let inbox = SqliteInbox::new("test").map_err(PublishError::retry)?;
        let first = inbox.first(&mut transaction, &message.id).await;
        if first.map_err(PublishError::retry)? {
            sqlx::query("INSERT INTO effects (key, value) VALUES (?, ?)")
                .bind(key)
                .bind(value)
                .execute(&mut *transaction)
                .await
                .map_err(PublishError::retry)?;
        }
        transaction.commit().await.map_err(PublishError::retry)
    };
    work.await
}

async fn deliver_postgres(pool: sqlx::PgPool, message: Message) -> Result<(), PublishError> {
    let (key, value) = (message.key.clone().unwrap_or_default(), value(&message));
    let note = sqlx::query("INSERT INTO deliveries (event) VALUES ($1)").bind(&message.id);
    note.execute(&pool).await.map_err(PublishError::retry)?;
    let mut transaction = pool.begin().await.map_err(PublishError::retry)?;
    let inbox = PostgresInbox::new("test").map_err(PublishError::retry)?;
    let first = inbox.first(&mut transaction, &message.id).await;
    if first.map_err(PublishError::retry)? {
        sqlx::query("INSERT INTO effects (key, value) VALUES ($1, $2)")
            .bind(key)
            .bind(value)
            .execute(&mut *transaction)
            .await
            .map_err(PublishError::retry)?;
    }
    transaction.commit().await.map_err(PublishError::retry)
}

fn value(message: &Message) -> i64 {
    String::from_utf8_lossy(&message.payload).parse().unwrap()
}

fn start(address: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "outbox::kill::worker_process"])
        .env(ROLE, address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(command).unwrap()
}

/// Kills one of several worker processes after another, at random moments: as often as promised, and on
/// a slow machine until enough was written and done between the kills to say anything.
async fn kill_again_and_again(address: &str, mut enough: impl AsyncFnMut() -> bool) -> (Vec<Process>, usize) {
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| start(address)).collect();
    let wanted = servers::kills().unwrap_or(KILLS);
    let mut kills = 0;
    while kills < wanted || !enough().await {
        clock::sleep(Duration::from_millis(20 + clock::below(130))).await;
        let at = usize::try_from(clock::below(PROCESSES as u64)).unwrap();
        processes[at].kill();
        processes[at] = start(address);
        kills += 1;
        assert!(kills < 20 * wanted, "the workers get nothing done between kills");
    }
    (processes, kills)
}

/// What is read from the database when all is done.
struct Found {
    written: i64,
    deliveries: i64,
    delivered: i64,
    effects: Vec<(String, i64)>,
    expected: Vec<(String, i64)>,
}

impl Found {
    fn check(&self, backend: &str, kills: usize, while_killing: i64) {
        assert!(self.written >= 500, "too little load to say anything");
        assert!(
            while_killing > 100,
            "too little was done between kills to say anything"
        );
        assert_eq!(self.delivered, self.written, "every event at least once");
        assert_eq!(
            self.effects.len() as i64,
            self.written,
            "every event exactly once"
        );
        for key in 0..KEYS {
            let of = |list: &[(String, i64)]| -> Vec<i64> {
                let mine = list.iter().filter(|(name, _)| *name == format!("k{key}"));
                mine.map(|(_, value)| *value).collect()
            };
            assert_eq!(of(&self.effects), of(&self.expected), "the order of key {key}");
        }
        println!(
            "faults\toutbox, {backend}\tworkers killed {kills}×; {} events, {} deliveries of {}, {} effects, \
             {while_killing} of them before the last kill, each once and in order",
            self.written,
            self.deliveries,
            self.delivered,
            self.effects.len()
        );
    }
}

const TABLES: &str = "CREATE TABLE deliveries (event TEXT NOT NULL)";
const EXPECTED: &str = "SELECT key, value FROM orders ORDER BY value";
const EFFECTS: &str = "SELECT key, value FROM effects ORDER BY id";

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_lose_nothing_in_sqlite() {
    let place = Sqlite::start().await;
    let pool = place.pool.clone();
    for table in [
        TABLES,
        "CREATE TABLE effects (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value INTEGER)",
        "CREATE TABLE orders (value INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT)",
    ] {
        sqlx::raw_sql(table).execute(&pool).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (pool, outbox, done) = (pool.clone(), place.outbox.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                for _ in 0..=clock::below(3) {
                    let key = format!("k{}", clock::below(KEYS));
                    let value: i64 =
                        sqlx::query_scalar("INSERT INTO orders (key) VALUES (?) RETURNING value")
                            .bind(&key)
                            .fetch_one(&mut *transaction)
                            .await
                            .unwrap();
                    let event = Event::new("orders", value.to_string()).key(key);
                    outbox.put(&mut transaction, &event).await.unwrap();
                }
                finish(transaction).await;
                clock::sleep(Duration::from_millis(25)).await;
            }
        }
    });
    let one = async |sql: &'static str| -> i64 { sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap() };
    let enough = async || {
        one("SELECT count(*) FROM orders").await >= WRITTEN
            && one("SELECT count(*) FROM effects").await >= DONE
    };
    let (processes, kills) = kill_again_and_again(&format!("file:{}", place.file.display()), enough).await;
    let while_killing = one("SELECT count(*) FROM effects").await;
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    drain(&place.outbox).await;
    drop(processes);
    let result = Found {
        written: one("SELECT count(*) FROM orders").await,
        deliveries: one("SELECT count(*) FROM deliveries").await,
        delivered: one("SELECT count(DISTINCT event) FROM deliveries").await,
        effects: sqlx::query_as(EFFECTS).fetch_all(&pool).await.unwrap(),
        expected: sqlx::query_as(EXPECTED).fetch_all(&pool).await.unwrap(),
    };
    result.check("SQLite", kills, while_killing);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn killed_workers_lose_nothing_in_postgres() {
    let place = Postgres::database().await;
    let pool = place.pool.clone();
    for table in [
        TABLES,
        "CREATE TABLE effects (id BIGSERIAL PRIMARY KEY, key TEXT, value BIGINT)",
        "CREATE TABLE orders (value BIGINT, key TEXT)",
    ] {
        sqlx::raw_sql(table).execute(&pool).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let values = Arc::new(AtomicU64::new(0));
    // Several write at once, and to the same keys: the value is drawn after the event's key is locked, so that
    // it says in what order the transactions were committed.
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (pool, outbox) = (pool.clone(), place.outbox.clone());
            let (done, values) = (done.clone(), values.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    write_order(&pool, &outbox, &values).await;
                    clock::sleep(Duration::from_millis(30)).await;
                }
            })
        })
        .collect();
    let one = async |sql: &'static str| -> i64 { sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap() };
    let enough = async || {
        one("SELECT count(*) FROM orders").await >= WRITTEN
            && one("SELECT count(*) FROM effects").await >= DONE
    };
    let (processes, kills) = kill_again_and_again(&place.url, enough).await;
    let while_killing = one("SELECT count(*) FROM effects").await;
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    drain(&place.outbox).await;
    drop(processes);
    let result = Found {
        written: one("SELECT count(*) FROM orders").await,
        deliveries: one("SELECT count(*) FROM deliveries").await,
        delivered: one("SELECT count(DISTINCT event) FROM deliveries").await,
        effects: sqlx::query_as(EFFECTS).fetch_all(&pool).await.unwrap(),
        expected: sqlx::query_as(EXPECTED).fetch_all(&pool).await.unwrap(),
    };
    result.check("PostgreSQL", kills, while_killing);
}

/// The lock that `put` takes, taken before the value is drawn.
async fn write_order(
    pool: &sqlx::PgPool,
    outbox: &retryguard_store::outbox::PostgresOutbox,
    values: &AtomicU64,
) {
    let mut transaction = pool.begin().await.unwrap();
    let key = format!("k{}", clock::below(KEYS));
    let lock = sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('k' || $1, 7247))");
    lock.bind(&key).execute(&mut *transaction).await.unwrap();
    for _ in 0..=clock::below(3) {
        let value = i64::try_from(values.fetch_add(1, Ordering::Relaxed)).unwrap();
        let event = Event::new("orders", value.to_string()).key(key.clone());
        outbox.put(&mut transaction, &event).await.unwrap();
        sqlx::query("INSERT INTO orders (value, key) VALUES ($1, $2)")
            .bind(value)
            .bind(&key)
            .execute(&mut *transaction)
            .await
            .unwrap();
    }
    finish(transaction).await;
    outbox.wake();
}

/// One transaction in ten is rolled back: its events never were.
async fn finish<D: sqlx::Database>(transaction: sqlx::Transaction<'_, D>) {
    if clock::below(10) == 0 {
        transaction.rollback().await.unwrap();
    } else {
        transaction.commit().await.unwrap();
    }
}

async fn drain(store: &impl OutboxStore) {
    let drained = async {
        while store.counts().await.unwrap().pending > 0 {
            clock::sleep(Duration::from_millis(50)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, drained)
        .await
        .expect("all is published");
}
