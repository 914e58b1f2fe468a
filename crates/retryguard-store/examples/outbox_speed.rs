//! What the outbox costs beside a loop written by hand, on one PostgreSQL server, all in one run, by turns. Prints
//! `group`, `name` and microseconds an event: `cargo xtask evidence store-speed` makes the table.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retryguard_parts::Postgres;
use retryguard_store::{
    migrations,
    outbox::{Event, Message, OutboxStore as _, PostgresOutbox, PublishError, Settings, Worker},
};
use sqlx::{PgPool, Row as _, postgres::PgPoolOptions};

/// Everybody comes by turns, this often; the fastest turn of each counts, so that a busy machine slows all alike.
const ROUNDS: usize = 5;
/// Events of one turn.
const EVENTS: usize = 4000;
/// Events written in one transaction of their own, of one turn.
const WRITES: usize = 500;
const KEYS: usize = 100;
const BATCH: i64 = 200;
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

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(server) = Postgres::start() else {
        return Err("PostgreSQL is not on this machine".into());
    };
    let pool = PgPoolOptions::new()
        .max_connections(8)
        // The loop by hand would be asked before every transaction whether its connection lives; so would ours.
        .test_before_acquire(false)
        .connect(&server.url())
        .await?;
    migrations::postgres(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE by_hand (id BIGSERIAL PRIMARY KEY, topic TEXT NOT NULL, payload BYTEA NOT NULL)",
    )
    .execute(&pool)
    .await?;
    let everybody = [Who::ByHand, Who::Alone, Who::Keyed];
    let mut best = [[Duration::MAX; 2]; 3];
    for _ in 0..ROUNDS {
        for (who, best) in everybody.into_iter().zip(&mut best) {
            let written = write(&pool, who).await? / u32::try_from(WRITES)?;
            let published = publish(&pool, who).await? / u32::try_from(EVENTS)?;
            *best = [best[0].min(written), best[1].min(published)];
        }
    }
    for (name, best) in ["by hand", "without keys", "with keys"].into_iter().zip(best) {
        for (group, span) in ["write", "publish"].into_iter().zip(best) {
            println!("{group}\t{name}\t{:.3}", span.as_secs_f64() * 1e6);
        }
    }
    Ok(())
}

/// One transaction after the other, with one event each.
async fn write(pool: &PgPool, who: Who) -> Result<Duration, Box<dyn std::error::Error>> {
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
) -> Result<(), Box<dyn std::error::Error>> {
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

/// A backlog is published by one worker, to a publisher that takes no time.
async fn publish(pool: &PgPool, who: Who) -> Result<Duration, Box<dyn std::error::Error>> {
    let outbox = PostgresOutbox::new(pool.clone());
    let mut transaction = pool.begin().await?;
    for number in 0..EVENTS {
        put(&outbox, &mut transaction, who, number).await?;
    }
    transaction.commit().await?;
    sqlx::raw_sql("ANALYZE").execute(pool).await?;
    let from = now();
    if who == Who::ByHand {
        while loop_by_hand(pool).await? > 0 {}
    } else {
        let published = Arc::new(AtomicUsize::new(0));
        let publish = {
            let published = published.clone();
            move |_: Message| {
                published.fetch_add(1, Ordering::Relaxed);
                std::future::ready(Ok::<(), PublishError>(()))
            }
        };
        let settings = Settings {
            concurrency: 200,
            batch: 200,
            keep: Duration::ZERO,
            ..Settings::default()
        };
        let worker = Worker::new(outbox.clone(), publish, settings)?.start();
        // Counting the backlog all the time would be work for the server that the loop by hand does not have.
        while published.load(Ordering::Relaxed) < EVENTS || outbox.counts().await?.pending > 0 {
            pause().await;
        }
        let span = from.elapsed();
        worker.stop().await;
        clear(pool).await?;
        return Ok(span);
    }
    let span = from.elapsed();
    clear(pool).await?;
    Ok(span)
}

async fn loop_by_hand(pool: &PgPool) -> sqlx::Result<usize> {
    let mut transaction = pool.begin().await?;
    let rows =
        sqlx::query("SELECT id, topic, payload FROM by_hand ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED")
            .bind(BATCH)
            .fetch_all(&mut *transaction)
            .await?;
    let mut done = Vec::with_capacity(rows.len());
    for row in &rows {
        let _: (String, Vec<u8>) = (row.try_get(1)?, row.try_get(2)?);
        std::future::ready(()).await;
        done.push(row.try_get::<i64, _>(0)?);
    }
    sqlx::query("DELETE FROM by_hand WHERE id = ANY($1)")
        .bind(&done)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(rows.len())
}

/// Everybody finds empty tables without the dead rows of those before.
async fn clear(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::raw_sql("TRUNCATE by_hand, retryguard_outbox, retryguard_outbox_lanes")
        .execute(pool)
        .await?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the end is looked for now and then")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}
