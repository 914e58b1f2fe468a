//! What the idempotency layer costs per request, on each backend, beside the same handler without it: over
//! loopback HTTP, all in one run, by turns. Prints group, name and the median in microseconds, then the ratios with their
//! spread: `cargo xtask evidence store-speed` makes the table.

use std::{path::Path, sync::Arc, time::Duration};

use axum::{Extension, Router, body::Body, extract::State, http::Response, routing::post};
use retryguard_parts::{Postgres, Redis};
use retryguard_store::idempotency::{
    Claim, IdempotencyLayer, IdempotencyStore, MemoryStore, PostgresStore, RedisStore, SqliteStore,
};
use sqlx::{
    PgPool, SqlitePool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// Requests that are timed, and those before them, which prepare statements and open connections. All that is compared makes one
/// request after the other in an order by chance, so that a busy machine slows all alike.
const REQUESTS: usize = 600;
const WARM: usize = 40;
/// Requests of one block. The ratio of two medians is also taken in every block by itself: half of the blocks are within the
/// spread that is shown.
const BLOCK: usize = 50;

struct Runner {
    group: &'static str,
    name: &'static str,
    url: String,
    keys: Keys,
    spans: Vec<Duration>,
}

#[derive(Clone, Copy)]
enum Keys {
    None,
    New,
    Same,
    /// A request that reads, without a key.
    Read,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys.db");
    let redis = Redis::start();
    let postgres = Postgres::start();
    let mut runners = vec![Runner::new("empty handler", "plain", empty(), Keys::None).await?];
    let stores: Vec<(&'static str, Arc<dyn IdempotencyStore>)> = vec![
        ("memory", Arc::new(MemoryStore::new())),
        ("sqlite", Arc::new(SqliteStore::open(&file).await?)),
        ("redis", Arc::new(RedisStore::connect(&redis.url()).await?)),
        (
            "postgres",
            Arc::new(PostgresStore::connect(&postgres.url()).await?),
        ),
    ];
    for (name, store) in stores {
        let app = empty().layer(IdempotencyLayer::shared(store.clone()));
        if name == "memory" {
            let unkeyed = Runner::new("empty handler", "no-key", app.clone(), Keys::None);
            runners.push(unkeyed.await?);
        }
        runners.push(Runner::new("empty handler", name, app.clone(), Keys::New).await?);
        runners.push(Runner::new("replay", name, app, Keys::Same).await?);
    }
    transactions(&mut runners, &file, &postgres).await?;

    let client = reqwest::Client::new();
    let mut order: Vec<usize> = (0..runners.len()).collect();
    let mut chance = fastrand::Rng::with_seed(7);
    for number in 0..WARM + REQUESTS {
        chance.shuffle(&mut order);
        for place in &order {
            let span = runners[*place].ask(&client, number).await?;
            if number >= WARM {
                runners[*place].spans.push(span);
            }
        }
    }
    for runner in &runners {
        println!("{}\t{}\t{:.1}", runner.group, runner.name, median(&runner.spans));
    }
    for (group, base) in PAIRS {
        for runner in runners.iter().filter(|runner| runner.group == group) {
            let base = runners.iter().find(|other| {
                other.group == base && (other.name == runner.name || other.group == "empty handler")
            });
            if let Some(base) = base {
                print_ratio(runner, base);
            }
        }
    }
    Ok(())
}

/// What is divided by what: groups, and the name is the same or the plain handler's.
const PAIRS: [(&str, &str); 5] = [
    ("empty handler", "empty handler"),
    ("replay", "empty handler"),
    ("effect, two steps", "effect, plain"),
    ("effect, one transaction", "effect, plain"),
    ("read, replay", "read, plain"),
];

fn median(spans: &[Duration]) -> f64 {
    let mut spans = spans.to_vec();
    spans.sort();
    spans[spans.len() / 2].as_secs_f64() * 1e6
}

fn print_ratio(runner: &Runner, base: &Runner) {
    let mut blocks: Vec<f64> = runner
        .spans
        .chunks(BLOCK)
        .zip(base.spans.chunks(BLOCK))
        .map(|(ours, theirs)| median(ours) / median(theirs))
        .collect();
    blocks.sort_by(f64::total_cmp);
    let all = median(&runner.spans) / median(&base.spans);
    let (low, high) = (blocks[blocks.len() / 4], blocks[blocks.len() * 3 / 4]);
    for (what, value) in [("ratio", all), ("low", low), ("high", high)] {
        println!("{what}: {}\t{}\t{value:.4}", runner.group, runner.name);
    }
}

fn empty() -> Router {
    Router::new().route("/", post(async || "paid"))
}

/// A handler with an effect in the store's own database: alone, and with its key completed in one transaction.
async fn transactions(
    runners: &mut Vec<Runner>,
    file: &Path,
    postgres: &Postgres,
) -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::open(file).await?;
    let pool = store.pool().clone();
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let app = Router::new()
        .route("/", post(pay_sqlite).get(read_sqlite))
        .with_state(pool);
    compare(runners, "sqlite", &app, Arc::new(store)).await?;
    let store = PostgresStore::connect(&postgres.url()).await?;
    let pool = store.pool().clone();
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let app = Router::new()
        .route("/", post(pay_postgres).get(read_postgres))
        .with_state(pool);
    compare(runners, "postgres", &app, Arc::new(store)).await?;
    // A commit that does not wait for the disk shows what the rest costs.
    let options = postgres
        .url()
        .parse::<PgConnectOptions>()?
        .options([("synchronous_commit", "off")]);
    let pool = PgPoolOptions::new()
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    let store = PostgresStore::with_pool(pool.clone()).await?;
    let app = Router::new()
        .route("/", post(pay_postgres).get(read_postgres))
        .with_state(pool);
    compare(runners, "postgres, no disk", &app, Arc::new(store)).await?;
    Ok(())
}

/// The handler alone, the layer with a claim of its own, and the layer with the claim in the handler's transaction.
async fn compare(
    runners: &mut Vec<Runner>,
    name: &'static str,
    app: &Router,
    store: Arc<dyn IdempotencyStore>,
) -> Result<(), std::io::Error> {
    let layer = IdempotencyLayer::shared(store);
    let apart = app.clone().layer(layer.clone());
    let together = app
        .clone()
        .layer(layer.namespace("together").in_transaction(true));
    for (group, app, keys) in [
        ("effect, plain", app.clone(), Keys::None),
        ("effect, two steps", apart, Keys::New),
        ("effect, one transaction", together.clone(), Keys::New),
        ("read, plain", app.clone(), Keys::Read),
        ("read, replay", together, Keys::Same),
    ] {
        runners.push(Runner::new(group, name, app, keys).await?);
    }
    Ok(())
}

const TABLES: &str = "CREATE TABLE payments (cents INTEGER);
    CREATE TABLE receipts (number INTEGER PRIMARY KEY, text VARCHAR);
    INSERT INTO receipts VALUES (1, 'paid')";
const READ: &str = "SELECT text FROM receipts WHERE number = 1";

async fn read_sqlite(State(pool): State<SqlitePool>) -> String {
    let read = sqlx::query_scalar(READ).fetch_one(&pool);
    read.await.expect("the database is there")
}

async fn read_postgres(State(pool): State<PgPool>) -> String {
    let read = sqlx::query_scalar(READ).fetch_one(&pool);
    read.await.expect("the database is there")
}

const PAY: &str = "INSERT INTO payments VALUES (1000)";

async fn pay_sqlite(State(pool): State<SqlitePool>, claim: Option<Extension<Claim>>) -> Response<Body> {
    let paid = async {
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(PAY).execute(&mut *transaction).await?;
        if let Some(Extension(claim)) = claim {
            let paid = claim.commit(transaction, Response::new("paid"));
            return paid
                .await
                .map_err(|error| sqlx::Error::Configuration(Box::new(error)));
        }
        transaction.commit().await?;
        Ok::<_, sqlx::Error>(Response::new(Body::from("paid")))
    };
    paid.await.expect("the database is there")
}

async fn pay_postgres(State(pool): State<PgPool>, claim: Option<Extension<Claim>>) -> Response<Body> {
    let paid = async {
        let mut transaction = pool.begin().await?;
        sqlx::query(PAY).execute(&mut *transaction).await?;
        if let Some(Extension(claim)) = claim {
            let paid = claim.commit(transaction, Response::new("paid"));
            return paid
                .await
                .map_err(|error| sqlx::Error::Configuration(Box::new(error)));
        }
        transaction.commit().await?;
        Ok::<_, sqlx::Error>(Response::new(Body::from("paid")))
    };
    paid.await.expect("the database is there")
}

impl Runner {
    async fn new(
        group: &'static str,
        name: &'static str,
        app: Router,
        keys: Keys,
    ) -> Result<Self, std::io::Error> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self {
            group,
            name,
            url,
            keys,
            spans: Vec::with_capacity(REQUESTS),
        })
    }

    async fn ask(&self, client: &reqwest::Client, number: usize) -> Result<Duration, reqwest::Error> {
        let mut request = match self.keys {
            Keys::Read => client.get(&self.url),
            _ => client.post(&self.url).body("10 euros"),
        };
        match self.keys {
            Keys::None | Keys::Read => {}
            Keys::New => {
                let key = format!("\"{} {} {number}\"", self.group, self.name);
                request = request.header("idempotency-key", key);
            }
            Keys::Same => request = request.header("idempotency-key", "\"same\""),
        }
        let before = now();
        request.send().await?.error_for_status()?.bytes().await?;
        Ok(before.elapsed())
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
