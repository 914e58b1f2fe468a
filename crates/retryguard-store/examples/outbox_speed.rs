//! What the outbox costs beside a loop written by hand, on one PostgreSQL server, all in one run, by turns. Prints
//! `group`, `name` and a figure, then the ratios with their spread: `cargo xtask evidence store-speed` makes the table.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use retryguard_parts::Postgres;
use retryguard_store::{
    Backend, StoreError, migrations,
    outbox::{
        Claimed, Counts, Event, Message, OutboxStore, Parked, PostgresOutbox, PublishError, Settings,
        Settled, Worker,
    },
};
use sqlx::{PgPool, Row as _, postgres::PgPoolOptions};
use tokio::sync::mpsc;

/// All come by turns, this often and in an order by chance, so that a busy machine slows all alike. Medians count, and half of
/// the rounds are within the spread that is shown.
const ROUNDS: usize = 5;
/// Events of one turn.
const EVENTS: usize = 100_000;
/// Events of one turn of those that are slower.
const FEW: usize = 10_000;
/// Events written in one transaction of their own, of one turn.
const WRITES: usize = 200;
const KEYS: usize = 100;
/// Events whose way from commit to publication is timed.
const TIMED: usize = 200;
const IDLE_AFTER: Duration = Duration::from_millis(50);
const PAYLOAD: [u8; 200] = [b'x'; 200];

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    /// `INSERT`, then `SELECT … FOR UPDATE SKIP LOCKED`, publish and `DELETE` in one transaction. No order under
    /// several workers, no waits between tries, no lease, no parking.
    ByHand,
    /// The outbox, events without keys.
    Alone,
    /// The outbox, events of a hundred keys.
    Keyed,
}

impl Who {
    const ALL: [Self; 3] = [Self::ByHand, Self::Alone, Self::Keyed];

    const fn name(self) -> &'static str {
        match self {
            Self::ByHand => "by hand",
            Self::Alone => "without keys",
            Self::Keyed => "with keys",
        }
    }
}

type Done<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Done<()> {
    let server = Postgres::start();
    let pool = PgPoolOptions::new()
        .max_connections(40)
        // The loop by hand would be asked before every transaction whether its connection lives; so would ours.
        .test_before_acquire(false)
        .connect(&server.url())
        .await?;
    migrations::postgres(&pool).await?;
    prepare(&pool).await?;

    let mut figures = Figures::default();
    let (mut order, mut chance) = (Who::ALL, fastrand::Rng::with_seed(7));
    for round in 0..ROUNDS {
        chance.shuffle(&mut order);
        for who in order {
            let span = write(&pool, who).await?;
            figures.note("write", who, span, WRITES);
        }
        for workers in [1, 4, 16] {
            for batch in [200, 1000] {
                chance.shuffle(&mut order);
                for who in order {
                    let span = publish(&pool, who, workers, batch, EVENTS).await?;
                    figures.note(&format!("publish {workers} {batch}"), who, span, EVENTS);
                }
            }
        }
        if round == 0 {
            for who in [Who::Alone, Who::Keyed] {
                let span = publish_by_key(&pool, who).await?;
                figures.note("publish by key", who, span, FEW);
            }
        }
    }
    figures.print();
    for (name, apart) in [("same process", false), ("another process", true)] {
        let mut spans = latencies(&pool, &server.url(), apart).await?;
        spans.sort();
        for (group, place) in [("latency p50", 50), ("latency p99", 99)] {
            println!("{group}\t{name}\t{:.3}", micros(spans[spans.len() * place / 100]));
        }
    }
    Ok(())
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// Microseconds an event, of every round.
#[derive(Default)]
struct Figures(Vec<(String, Who, Vec<f64>)>);

impl Figures {
    fn note(&mut self, group: &str, who: Who, span: Duration, events: usize) {
        let each = micros(span) / events as f64;
        eprintln!("{group}, {}: {each:.2} µs an event", who.name());
        match self.0.iter_mut().find(|(g, w, _)| g == group && *w == who) {
            Some((_, _, rounds)) => rounds.push(each),
            None => self.0.push((group.to_owned(), who, vec![each])),
        }
    }

    fn print(&self) {
        for (group, who, rounds) in &self.0 {
            println!("{group}\t{}\t{:.3}", who.name(), place(rounds, 2, 4));
            let by_hand = self.0.iter().find(|(g, w, _)| g == group && *w == Who::ByHand);
            let Some((_, _, by_hand)) = by_hand.filter(|_| *who != Who::ByHand) else {
                continue;
            };
            let ratios: Vec<f64> = by_hand
                .iter()
                .zip(rounds)
                .map(|(hand, ours)| hand / ours)
                .collect();
            let all = place(by_hand, 2, 4) / place(rounds, 2, 4);
            for (what, value) in [
                ("ratio", all),
                ("low", place(&ratios, 1, 4)),
                ("high", place(&ratios, 3, 4)),
            ] {
                println!("{what}: {group}\t{}\t{value:.4}", who.name());
            }
        }
    }
}

/// The value below which this part of all values is.
fn place(values: &[f64], part: usize, of: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * part / of]
}

/// Tables for the loop by hand, and the keys of ours as the outbox itself writes them.
async fn prepare(pool: &PgPool) -> Done<()> {
    sqlx::raw_sql(
        "CREATE TABLE by_hand (id BIGSERIAL PRIMARY KEY, topic TEXT NOT NULL, payload BYTEA NOT NULL)",
    )
    .execute(pool)
    .await?;
    let outbox = PostgresOutbox::new(pool.clone());
    let mut transaction = pool.begin().await?;
    for number in 0..KEYS {
        put(&outbox, &mut transaction, Who::Keyed, number).await?;
    }
    transaction.commit().await?;
    sqlx::raw_sql(
        "CREATE TABLE keys AS SELECT lane, part, topic, key, headers, payload FROM retryguard_outbox",
    )
    .execute(pool)
    .await?;
    clear(pool).await?;
    Ok(())
}

/// One transaction after the other, with one event each.
async fn write(pool: &PgPool, who: Who) -> Done<Duration> {
    let outbox = PostgresOutbox::new(pool.clone());
    let from = now();
    for number in 0..WRITES {
        let mut transaction = pool.begin().await?;
        put(&outbox, &mut transaction, who, number).await?;
        transaction.commit().await?;
    }
    let span = from.elapsed();
    clear(pool).await?;
    Ok(span)
}

async fn put(
    outbox: &PostgresOutbox,
    transaction: &mut sqlx::PgConnection,
    who: Who,
    number: usize,
) -> Done<()> {
    if who == Who::ByHand {
        let insert = sqlx::query("INSERT INTO by_hand (topic, payload) VALUES ('t', $1)").bind(&PAYLOAD[..]);
        insert.execute(transaction).await?;
        return Ok(());
    }
    let mut event = Event::new("t", &PAYLOAD[..]);
    if who == Who::Keyed {
        event = event.key(format!("key-{}", number % KEYS));
    }
    outbox.put(transaction, &event).await?;
    Ok(())
}

/// A backlog, written by one statement: a hundred thousand transactions would take longer than all the rest. Parts are those
/// that the outbox itself takes.
async fn fill(pool: &PgPool, who: Who, events: usize) -> Done<()> {
    let statement = match who {
        Who::ByHand => {
            "INSERT INTO by_hand (topic, payload) SELECT 't', k.payload
             FROM (SELECT payload FROM keys LIMIT 1) k CROSS JOIN generate_series(1, $1)"
        }
        Who::Alone => {
            "INSERT INTO retryguard_outbox (lane, part, topic, headers, payload)
             SELECT 'u' || gen_random_uuid(), (event / 64) % 64, k.topic, k.headers, k.payload
             FROM (SELECT * FROM keys LIMIT 1) k CROSS JOIN generate_series(1, $1) event"
        }
        Who::Keyed => {
            "INSERT INTO retryguard_outbox (lane, part, topic, key, headers, payload)
             SELECT k.lane, k.part, k.topic, k.key, k.headers, k.payload
             FROM generate_series(1, $1 / (SELECT count(*) FROM keys)) CROSS JOIN keys k"
        }
    };
    let fill = sqlx::query(statement).bind(i64::try_from(events)?);
    fill.execute(pool).await?;
    sqlx::raw_sql("ANALYZE; CHECKPOINT").execute(pool).await?;
    Ok(())
}

/// A backlog is published by some workers, to a publisher that takes no time.
async fn publish(pool: &PgPool, who: Who, workers: usize, batch: u32, events: usize) -> Done<Duration> {
    fill(pool, who, events).await?;
    let from = now();
    if who == Who::ByHand {
        let loops: Vec<_> = (0..workers)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    while loop_by_hand(&pool, batch).await? > 0 {}
                    Ok::<(), sqlx::Error>(())
                })
            })
            .collect();
        for one in loops {
            one.await??;
        }
    } else {
        let outboxes = (0..workers).map(|_| PostgresOutbox::new(pool.clone()));
        run(pool, outboxes, batch, events).await?;
    }
    let span = from.elapsed();
    clear(pool).await?;
    Ok(span)
}

/// As before there were parts: every key is claimed and reported by itself.
async fn publish_by_key(pool: &PgPool, who: Who) -> Done<Duration> {
    fill(pool, who, FEW).await?;
    let from = now();
    run(pool, [ByKey(PostgresOutbox::new(pool.clone()))], 200, FEW).await?;
    let span = from.elapsed();
    clear(pool).await?;
    Ok(span)
}

async fn run<S: OutboxStore>(
    pool: &PgPool,
    outboxes: impl IntoIterator<Item = S>,
    batch: u32,
    events: usize,
) -> Done<()> {
    let published = Arc::new(AtomicUsize::new(0));
    let mut running = Vec::new();
    for outbox in outboxes {
        let published = published.clone();
        let publish = move |_: Message| {
            published.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<(), PublishError>(()))
        };
        let settings = Settings {
            concurrency: 200,
            batch,
            keep: Duration::ZERO,
            ..Settings::default()
        };
        running.push(Worker::new(outbox, publish, settings)?.start());
    }
    // Looking all the time would be work for the server that the loop by hand does not have.
    while published.load(Ordering::Relaxed) < events || waits(pool).await? {
        pause(Duration::from_millis(2)).await;
    }
    for worker in running {
        worker.stop().await;
    }
    Ok(())
}

/// By the index: reading over the rows that were deleted would take longer than publishing them.
async fn waits(pool: &PgPool) -> sqlx::Result<bool> {
    let one = sqlx::query("SELECT 1 FROM retryguard_outbox WHERE state = 0 ORDER BY part LIMIT 1");
    Ok(one.fetch_optional(pool).await?.is_some())
}

async fn loop_by_hand(pool: &PgPool, batch: u32) -> sqlx::Result<usize> {
    let mut transaction = pool.begin().await?;
    let rows =
        sqlx::query("SELECT id, topic, payload FROM by_hand ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED")
            .bind(i64::from(batch))
            .fetch_all(&mut *transaction)
            .await?;
    let mut done = Vec::with_capacity(rows.len());
    for row in &rows {
        let _: (String, Vec<u8>) = (row.try_get(1)?, row.try_get(2)?);
        ready(()).await;
        done.push(row.try_get::<i64, _>(0)?);
    }
    sqlx::query("DELETE FROM by_hand WHERE id = ANY($1)")
        .bind(&done)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(rows.len())
}

/// From the end of the commit to the publisher, with a worker that has nothing else to do.
async fn latencies(pool: &PgPool, url: &str, apart: bool) -> Done<Vec<Duration>> {
    let outbox = PostgresOutbox::new(pool.clone());
    let (send, mut published) = mpsc::unbounded_channel();
    let publish = move |_: Message| {
        let _ = send.send(now());
        ready(Ok::<(), PublishError>(()))
    };
    let worker = Worker::new(outbox.clone(), publish, Settings::default())?.start();
    // Another pool is separate: it wakes the worker through the server.
    let (pool, outbox) = if apart {
        let pool = PgPool::connect(url).await?;
        (pool.clone(), PostgresOutbox::new(pool))
    } else {
        (pool.clone(), outbox)
    };
    pause(Duration::from_millis(500)).await;
    let mut spans = Vec::new();
    for number in 0..TIMED {
        let mut transaction = pool.begin().await?;
        put(&outbox, &mut transaction, Who::Keyed, number).await?;
        transaction.commit().await?;
        let from = now();
        outbox.wake();
        let at = published.recv().await.ok_or("the worker has ended")?;
        spans.push(at.saturating_duration_since(from));
        // The worker reports the event, which is a commit, and looks once more before it is idle.
        pause(IDLE_AFTER).await;
    }
    worker.stop().await;
    clear(&pool).await?;
    Ok(spans)
}

/// All find empty tables without the dead rows of those before.
async fn clear(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::raw_sql("TRUNCATE by_hand, retryguard_outbox, retryguard_outbox_lanes")
        .execute(pool)
        .await?;
    Ok(())
}

/// The same outbox, without batches.
#[derive(Clone)]
struct ByKey(PostgresOutbox);

impl OutboxStore for ByKey {
    fn backend(&self) -> Backend {
        self.0.backend()
    }

    async fn claim(&self, lanes: u32, events: u32, lease: Duration) -> Result<Vec<Claimed>, StoreError> {
        self.0.claim(lanes, events, lease).await
    }

    async fn settle(&self, lanes: &[Settled], keep: bool) -> Result<usize, StoreError> {
        self.0.settle(lanes, keep).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.0.counts().await
    }

    async fn parked(&self, after: i64, limit: u32) -> Result<Vec<Parked>, StoreError> {
        self.0.parked(after, limit).await
    }

    async fn retry(&self, number: i64) -> Result<bool, StoreError> {
        self.0.retry(number).await
    }

    async fn discard(&self, number: i64) -> Result<bool, StoreError> {
        self.0.discard(number).await
    }

    async fn release_held(&self) -> Result<(), StoreError> {
        self.0.release_held().await
    }

    async fn clean(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        self.0.clean(age, limit).await
    }

    fn wake(&self) {
        self.0.wake();
    }

    async fn woken(&self) {
        self.0.woken().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the end is looked for now and then")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
