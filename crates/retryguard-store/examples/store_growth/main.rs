//! How keys and outbox behave when their tables have grown to a million rows, on SQLite and PostgreSQL. Prints `group`, `name`
//! and a figure: `cargo xtask evidence store-growth` makes the page. `requests` and `sizes` as an argument do one of the two parts.

mod clean_up;

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use clean_up::Batches;
use http::{HeaderMap, StatusCode};
use retryguard_parts::Postgres;
use retryguard_store::{
    idempotency::{
        Asked, Fingerprint, IdempotencyStore, KeyId, PostgresStore, SqliteStore, Standing, StoredResponse,
    },
    outbox::{
        BatchSettled, Event, Message, OutboxStore, PostgresOutbox, PublishError, Settings, Settled,
        SqliteOutbox, Taken, Worker,
    },
};
use sqlx::{
    PgPool, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

/// Rows of a grown table.
const ROWS: i64 = 1_000_000;
/// Requests that are timed, in each of the two, and those before them.
const WARM: usize = 50;
const TIMED: usize = 500;
/// Requests of one turn without and with a clean-up beside them, and how many turns each has.
const TURN: usize = 100;
const TURNS: usize = 3;
/// How long keys and events are written and forgotten to see how far the tables grow, how often their size is read, and how long
/// each is kept.
const LOAD: Duration = Duration::from_secs(3600);
const LOOKS: u32 = 6;
/// How long each of the four writers pauses after a row, so that an hour of load leaves the machine to others.
const BETWEEN: Duration = Duration::from_millis(10);
const KEPT: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Done<()> {
    let folder = tempfile::tempdir()?;
    let server = Postgres::start();
    let mut places = Vec::new();
    for name in ["small", "grown"] {
        let file = folder.path().join(name);
        let store = SqliteStore::open(&file).await?;
        // Events are written and published by a program that has a pool of its own.
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20));
        let database = Database::Sqlite(SqlitePool::connect_with(options).await?);
        places.push(Place {
            database,
            store: Arc::new(store),
        });
    }
    let sqlite: [Place; 2] = places.try_into().map_err(|_| "two files")?;
    let mut places = Vec::new();
    let admin = PgPool::connect(&server.url()).await?;
    let address = server.url();
    let (host, _) = address.rsplit_once('/').ok_or("no database in the address")?;
    for name in ["small", "grown"] {
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&admin).await?;
        let store = PostgresStore::connect(&format!("{host}/{name}")).await?;
        let database = Database::Postgres(store.pool().clone());
        places.push(Place {
            database,
            store: Arc::new(store),
        });
    }
    let postgres: [Place; 2] = places.try_into().map_err(|_| "two databases")?;
    let part = std::env::args().nth(1);
    let wanted = |name| part.as_deref().is_none_or(|part| part == name);
    for (name, [small, grown]) in [("sqlite", &sqlite), ("postgres", &postgres)] {
        if !wanted("requests") {
            continue;
        }
        eprintln!("{name}: filling");
        grown.database.fill().await?;
        grows(name, small, grown).await?;
        cleans_keys(name, grown).await?;
        cleans_events(name, grown).await?;
    }
    if !wanted("sizes") {
        return Ok(());
    }
    // Both at the same time, for the time's sake: here sizes are compared, and no spans.
    let (one, other) = tokio::join!(load("sqlite", &sqlite[0]), load("postgres", &postgres[0]));
    one?;
    other
}

fn figure(group: &str, name: &str, value: f64) {
    println!("{group}\t{name}\t{value:.3}");
}

/// A database and the store in it.
struct Place {
    database: Database,
    store: Arc<dyn IdempotencyStore>,
}

#[derive(Clone)]
enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// The same steps in an empty and in a grown database, by turns.
async fn grows(name: &str, small: &Place, grown: &Place) -> Done<()> {
    let places = [("empty", small), ("grown", grown)];
    let mut spans: [[Vec<Duration>; 3]; 2] = Default::default();
    // The first requests make plans and pages that all others find.
    for number in 0..WARM + TIMED {
        for ((_, place), spans) in places.iter().zip(&mut spans) {
            let all = place.step(number).await?;
            if number >= WARM {
                for (list, span) in spans.iter_mut().zip(all) {
                    list.push(span);
                }
            }
        }
    }
    for ((state, _), spans) in places.iter().zip(&mut spans) {
        for (step, list) in ["new key", "replay", "event"].iter().zip(spans) {
            figure(&format!("{step}, {state}"), name, percentile(list, 50));
        }
    }
    Ok(())
}

impl Place {
    /// A new key, its replay, and an event that is written, claimed and reported.
    async fn step(&self, number: usize) -> Done<[Duration; 3]> {
        let asked = asked("step", number, DAY);
        let from = now();
        pay(&*self.store, asked).await?;
        let new = from.elapsed();
        let from = now();
        let standing = self.store.claim(asked).await?;
        let replay = from.elapsed();
        if !matches!(standing, Standing::Done(_)) {
            return Err("the key is not known".into());
        }
        let from = now();
        self.database.publish(number).await?;
        Ok([new, replay, from.elapsed()])
    }
}

fn asked(kind: &str, number: usize, keep: Duration) -> Asked {
    Asked {
        id: KeyId::of(&[kind.as_bytes(), &number.to_be_bytes()]),
        fingerprint: Fingerprint::of(&[kind.as_bytes()]),
        lock: Duration::from_secs(30),
        keep,
    }
}

fn response() -> StoredResponse {
    StoredResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Some(Bytes::from_static(b"{\"state\": \"paid\", \"receipt\": 17}")),
    }
}

/// Claims and completes a new key.
async fn pay(store: &dyn IdempotencyStore, asked: Asked) -> Done<()> {
    let Standing::Yours(held) = store.claim(asked).await? else {
        return Err("the key is not new".into());
    };
    store.complete(held, &response(), asked.keep).await?;
    Ok(())
}

async fn publish_lanes(outbox: &SqliteOutbox) -> Done<()> {
    let lanes = outbox.claim(32, 200, Duration::from_secs(30)).await?;
    let settled: Vec<Settled> = lanes
        .into_iter()
        .map(|lane| Settled {
            published: lane.events.iter().map(|event| event.number).collect(),
            lane: lane.lane,
            token: lane.token,
            parked: Vec::new(),
            retry: None,
            hold: false,
        })
        .collect();
    if settled.is_empty() {
        return Err("the event is not there".into());
    }
    outbox.settle(&settled, true).await?;
    Ok(())
}

async fn publish_batch(outbox: &PostgresOutbox) -> Done<()> {
    let Taken::Batch(batch) = outbox.claim_batch(200, Duration::from_secs(30)).await? else {
        return Err("the event is not there".into());
    };
    let events = batch.lanes.iter().flat_map(|lane| &lane.events);
    let settled = BatchSettled {
        published: events.map(|event| event.number).collect(),
        parts: batch.parts,
        ..BatchSettled::default()
    };
    outbox.settle_batch(&settled, true).await?;
    Ok(())
}

impl Database {
    /// An event is written, claimed and reported.
    async fn publish(&self, number: usize) -> Done<()> {
        self.put(number).await?;
        match self {
            Self::Sqlite(pool) => publish_lanes(&SqliteOutbox::new(pool.clone())).await,
            Self::Postgres(pool) => publish_batch(&PostgresOutbox::new(pool.clone())).await,
        }
    }

    async fn put(&self, number: usize) -> Done<()> {
        let event = Event::new("t", "payload").key(format!("key-{}", number % 10));
        match self {
            Self::Sqlite(pool) => {
                let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
                let outbox = SqliteOutbox::new(pool.clone());
                outbox.put(&mut transaction, &event).await?;
                transaction.commit().await?;
            }
            Self::Postgres(pool) => {
                let mut transaction = pool.begin().await?;
                let outbox = PostgresOutbox::new(pool.clone());
                outbox.put(&mut transaction, &event).await?;
                transaction.commit().await?;
            }
        }
        Ok(())
    }

    /// A million completed keys, half of which are no longer kept, and a million events, half published and half parked.
    async fn fill(&self) -> Done<()> {
        match self {
            Self::Sqlite(pool) => {
                for statement in [
                    "INSERT INTO retryguard_idempotency
                        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                     SELECT randomblob(32), randomblob(32), 1, 0, 30000000,
                        CASE WHEN i % 2 = 0 THEN i ELSE 4000000000000000 + i END, 200, x'', randomblob(32) FROM n",
                    "INSERT INTO retryguard_outbox (lane, topic, key, headers, payload, written_at, state, ended_at)
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                     SELECT 'kold-' || (i % 1000), 't', 'old-' || (i % 1000), '[]', randomblob(100), i, 1 + i % 2, i FROM n",
                ] {
                    sqlx::query(statement).bind(ROWS).execute(pool).await?;
                }
                // The trigger has made their lanes.
                sqlx::raw_sql("DELETE FROM retryguard_outbox_lanes WHERE lane LIKE 'kold-%'; ANALYZE")
                    .execute(pool)
                    .await?;
            }
            Self::Postgres(pool) => {
                for statement in [
                    "INSERT INTO retryguard_idempotency
                        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
                     SELECT sha256(i::text::bytea), sha256(i::text::bytea), 1, 'epoch', 30000000,
                        CASE WHEN i % 2 = 0 THEN now() - interval '1 day' ELSE now() + interval '1 day' END,
                        200, '', sha256(i::text::bytea) FROM generate_series(1, $1) AS i",
                    "INSERT INTO retryguard_outbox (lane, part, topic, key, headers, payload, state, ended_at)
                     SELECT 'kold-' || (i % 1000), i % 64, 't', 'old-' || (i % 1000), '[]', sha256(i::text::bytea),
                        1 + i % 2, now() FROM generate_series(1, $1) AS i",
                ] {
                    sqlx::query(statement).bind(ROWS).execute(pool).await?;
                }
                sqlx::raw_sql("VACUUM ANALYZE").execute(pool).await?;
                sqlx::raw_sql("CHECKPOINT").execute(pool).await?;
            }
        }
        Ok(())
    }

    /// The bytes of the tables, and of their indexes. A file of SQLite is one number.
    async fn sizes(&self) -> Done<(i64, i64)> {
        Ok(match self {
            Self::Sqlite(pool) => {
                let pages = "SELECT (SELECT page_count FROM pragma_page_count())
                    * (SELECT page_size FROM pragma_page_size())";
                (sqlx::query_scalar(pages).fetch_one(pool).await?, 0)
            }
            Self::Postgres(pool) => {
                let sizes = "SELECT sum(pg_table_size(name))::bigint, sum(pg_indexes_size(name))::bigint
                    FROM unnest(ARRAY['retryguard_idempotency', 'retryguard_outbox', 'retryguard_outbox_lanes',
                        'retryguard_outbox_parts']::regclass[]) AS t(name)";
                sqlx::query_as(sizes).fetch_one(pool).await?
            }
        })
    }

    /// What the rows that are there need, in a table without gaps.
    async fn compact(&self) -> Done<()> {
        match self {
            Self::Sqlite(pool) => {
                sqlx::raw_sql("VACUUM").execute(pool).await?;
            }
            Self::Postgres(pool) => {
                sqlx::raw_sql("VACUUM FULL").execute(pool).await?;
            }
        }
        Ok(())
    }

    async fn rows(&self) -> Done<i64> {
        let count =
            "SELECT (SELECT count(*) FROM retryguard_idempotency) + (SELECT count(*) FROM retryguard_outbox)";
        Ok(match self {
            Self::Sqlite(pool) => sqlx::query_scalar(count).fetch_one(pool).await?,
            Self::Postgres(pool) => sqlx::query_scalar(count).fetch_one(pool).await?,
        })
    }
}

/// Requests by turns without and beside a clean-up: medians and 99th percentiles, the longest request, the longest batch of the
/// clean-up and how many rows it deletes in a second.
async fn beside(
    name: &str,
    what: &str,
    mut request: impl AsyncFnMut(usize) -> Done<()>,
    batches: &Batches,
) -> Done<()> {
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let (mut deleted, mut longest, mut seconds) = (0, Duration::ZERO, 0.0);
    let mut number = 0;
    for _ in 0..TURNS {
        for cleaning in [false, true] {
            batches.switch(cleaning);
            let spans = if cleaning { &mut together } else { &mut alone };
            let begin = now();
            for _ in 0..TURN {
                let from = now();
                request(number).await?;
                spans.push(from.elapsed());
                number += 1;
            }
            if cleaning {
                let (rows, batch) = batches.take();
                deleted += rows;
                longest = longest.max(batch);
                seconds += begin.elapsed().as_secs_f64();
            }
        }
        batches.switch(false);
    }
    figure(&format!("{what}, p50 alone"), name, percentile(&mut alone, 50));
    figure(
        &format!("{what}, p50 beside"),
        name,
        percentile(&mut together, 50),
    );
    figure(&format!("{what}, p99 alone"), name, percentile(&mut alone, 99));
    figure(
        &format!("{what}, p99 beside"),
        name,
        percentile(&mut together, 99),
    );
    figure(
        &format!("{what}, longest beside"),
        name,
        percentile(&mut together, 100),
    );
    figure(
        &format!("{what}, longest batch"),
        name,
        longest.as_secs_f64() * 1e6,
    );
    figure(
        &format!("{what}, deleted a second"),
        name,
        deleted as f64 / seconds,
    );
    Ok(())
}

async fn cleans_keys(name: &str, place: &Place) -> Done<()> {
    let batches = Arc::default();
    let cleaner = clean_up::of_keys(place.store.clone(), &batches);
    let request = async |number| pay(&*place.store, asked("beside", number, DAY)).await;
    beside(name, "keys", request, &batches).await?;
    drop(cleaner);
    Ok(())
}

async fn cleans_events(name: &str, place: &Place) -> Done<()> {
    let batches = Arc::default();
    let cleaner = match &place.database {
        Database::Sqlite(pool) => clean_up::of_events(SqliteOutbox::new(pool.clone()), &batches)?,
        Database::Postgres(pool) => clean_up::of_events(PostgresOutbox::new(pool.clone()), &batches)?,
    };
    let request = async |number| place.database.publish(number).await;
    beside(name, "events", request, &batches).await?;
    cleaner.stop().await;
    Ok(())
}

/// Keys and events are written by several at once, kept for a while, published and forgotten by the usual clean-up.
async fn load(name: &str, place: &Place) -> Done<()> {
    let end = now() + LOAD;
    let written = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for writer in 0..2 {
        let (store, keys) = (place.store.clone(), written.clone());
        writers.push(tokio::spawn(async move {
            let kind = format!("load {writer}");
            for number in 0.. {
                if now() >= end {
                    break;
                }
                pay(&*store, asked(&kind, number, KEPT)).await?;
                keys.fetch_add(1, Ordering::Relaxed);
                pause(BETWEEN).await;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        }));
        let (database, events) = (place.database.clone(), written.clone());
        writers.push(tokio::spawn(async move {
            for number in 0.. {
                if now() >= end {
                    break;
                }
                database.put(number).await?;
                events.fetch_add(1, Ordering::Relaxed);
                pause(BETWEEN).await;
            }
            Ok(())
        }));
    }
    let settings = Settings {
        keep: KEPT,
        housekeeping: Duration::from_secs(1),
        ..Settings::default()
    };
    let publish = |_: Message| ready(Ok::<(), PublishError>(()));
    let worker = match &place.database {
        Database::Sqlite(pool) => Worker::new(SqliteOutbox::new(pool.clone()), publish, settings)?.start(),
        Database::Postgres(pool) => {
            Worker::new(PostgresOutbox::new(pool.clone()), publish, settings)?.start()
        }
    };
    let batches = Arc::new(Batches::default());
    batches.switch(true);
    let cleaner = clean_up::of_keys(place.store.clone(), &batches);
    for look in 1..=LOOKS {
        let next = end - LOAD + LOAD * look / LOOKS;
        while now() < next {
            pause(Duration::from_millis(500)).await;
        }
        let (tables, indexes) = place.database.sizes().await?;
        figure(&format!("tables, look {look}"), name, tables as f64);
        figure(&format!("indexes, look {look}"), name, indexes as f64);
    }
    for writer in writers {
        writer.await??;
    }
    worker.stop().await;
    drop(cleaner);
    figure("rows written", name, written.load(Ordering::Relaxed) as f64);
    figure("rows left", name, place.database.rows().await? as f64);
    place.database.compact().await?;
    let (tables, indexes) = place.database.sizes().await?;
    figure("tables, compact", name, tables as f64);
    figure("indexes, compact", name, indexes as f64);
    Ok(())
}

/// In microseconds.
fn percentile(spans: &mut [Duration], place: usize) -> f64 {
    spans.sort();
    spans[(spans.len() * place / 100).min(spans.len() - 1)].as_secs_f64() * 1e6
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "writers pause, and sizes are read now and then"
)]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
