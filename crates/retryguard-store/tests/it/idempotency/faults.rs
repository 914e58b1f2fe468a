//! Faults of the database under load: connections cut, servers killed, a disk that is full, a database that is read-only, a
//! deadlock, a pool that is exhausted, a clock that jumps. Every answer is the effect's or an error, every effect happens
//! once, and the checker of histories decides it.
//!
//! `RETRYGUARD_TEST_FAULTS` is how often each fault is made: twice where it is not set.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use fastrand::Rng;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use retryguard_parts::{Postgres, Redis};
use retryguard_store::{
    StoreError,
    idempotency::{Claim, IdempotencyLayer, IdempotencyStore, PostgresStore, RedisStore, SqliteStore},
};
use sqlx::{PgPool, SqlitePool, postgres::PgPoolOptions};
use tower::ServiceExt as _;

use super::{
    kills::pay_once,
    payments::{Payments, new_effect, sqlite_pool},
};
use crate::{
    clock,
    history::{self, Operation, Seen},
    proxy::Proxy,
};

const CLIENTS: usize = 6;
/// Requests that end while a fault lasts, and the longest that they are waited for.
const DURING: usize = 12;
const PATIENCE: Duration = Duration::from_secs(2);

/// How often each fault is made.
fn rounds() -> usize {
    let wanted = std::env::var("RETRYGUARD_TEST_FAULTS").ok();
    wanted.map_or(2, |wanted| wanted.parse().unwrap())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    /// Every connection is cut.
    Cut,
    /// The database's process is killed and started again.
    Kill,
    ReadOnly,
    Full,
    /// Two handlers wait for each other.
    Deadlock,
    /// Every connection of the pool is in use elsewhere.
    Exhausted,
    /// The clock is set back, and forward, by an hour.
    ClockBack,
    ClockForward,
}

/// A database whose faults the test makes.
trait World: Send + Sync {
    const FAULTS: &'static [Fault];

    async fn begin(&mut self, fault: Fault);
    async fn end(&mut self, fault: Fault);
    /// How many connections were cut.
    fn cut(&self) -> usize {
        0
    }
    /// The effects of each payer, once everything is well.
    async fn effects(&self) -> HashMap<String, Vec<String>>;
}

/// What all clients have seen.
#[derive(Default)]
struct Tally {
    over: AtomicBool,
    ended: AtomicUsize,
    good: AtomicUsize,
    moment: AtomicU64,
    histories: Mutex<HashMap<String, Vec<Operation>>>,
}

impl Tally {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// Of requests without a known end the earliest can do whatever a later one can, so it stands for all.
    fn note(&self, key: &str, request: &str, began: u64, seen: Seen) {
        let ended = (seen != Seen::Unknown).then(|| self.now());
        let mut all = self.histories.lock().unwrap();
        let history = all.entry(key.to_owned()).or_default();
        if ended.is_none()
            && let Some(known) = history
                .iter_mut()
                .find(|one| one.seen == Seen::Unknown && one.request == request)
        {
            known.began = known.began.min(began);
            return;
        }
        if seen == Seen::Refused && history.len() >= 50 {
            return;
        }
        history.push(Operation {
            request: request.to_owned(),
            began,
            ended,
            seen,
        });
    }

    /// Waits until this many more have ended, or for so long.
    async fn more(&self, counter: &AtomicUsize, count: usize, patience: Duration) -> bool {
        let enough = counter.load(Ordering::SeqCst) + count;
        let end = clock::now() + patience;
        while counter.load(Ordering::SeqCst) < enough {
            if clock::now() >= end {
                return false;
            }
            clock::sleep(Duration::from_millis(2)).await;
        }
        true
    }
}

/// Pays under one key after the other, each until it is acknowledged; neighbours share keys, so that duplicates meet.
async fn client(number: usize, app: Router, tally: Arc<Tally>) {
    let mut rng = Rng::with_seed(number as u64);
    for order in 0.. {
        if tally.over.load(Ordering::SeqCst) {
            return;
        }
        let key = format!("payer {} order {order}", number / 2);
        let request = if rng.u32(..12) == 0 { "other" } else { "usual" };
        for _ in 0..200 {
            let began = tally.now();
            let seen = ask(&app, &key, request).await;
            tally.ended.fetch_add(1, Ordering::SeqCst);
            let again = matches!(seen, Seen::Unknown | Seen::Refused);
            tally.note(&key, request, began, seen);
            if !again {
                tally.good.fetch_add(1, Ordering::SeqCst);
                break;
            }
            clock::sleep(Duration::from_millis(5 + rng.u64(..10))).await;
        }
    }
}

async fn ask(app: &Router, key: &str, request: &str) -> Seen {
    let sent = Request::post("/pay")
        .header("idempotency-key", format!("\"{key}\""))
        .body(Body::from(format!("{key}/{request}")))
        .unwrap();
    let response = app.clone().oneshot(sent).await.unwrap();
    let replayed = response.headers().contains_key("idempotency-replayed");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    match status {
        200 => {
            let effect = body.split_once('#').unwrap().1.to_owned();
            if replayed {
                Seen::Replayed(effect)
            } else {
                Seen::First(effect)
            }
        }
        409 => Seen::Refused,
        422 => Seen::OtherRequest,
        500 | 503 | 504 => Seen::Unknown,
        other => panic!("{other}: {body}"),
    }
}

/// The key is what effects are counted by.
fn payer(body: &str) -> &str {
    body.split_once('/').unwrap().0
}

fn layer(store: Arc<dyn IdempotencyStore>) -> IdempotencyLayer {
    IdempotencyLayer::shared(store)
        .lock(Duration::from_millis(300))
        .wait(Duration::from_millis(300))
        .store_timeout(Duration::from_millis(500))
}

/// An effect in the database of the keys.
async fn pay(
    State(payments): State<Payments>,
    Extension(claim): Extension<Claim>,
    body: String,
) -> Response<Body> {
    let paid = tokio::time::timeout(PATIENCE, pay_once(&payments, &claim, payer(&body))).await;
    match paid {
        Ok(Ok(response)) => response,
        Ok(Err(StoreError::ClaimLost)) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    }
}

async fn survives(what: String, mut world: impl World, app: Router) {
    let tally = Arc::new(Tally::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(number, app.clone(), tally.clone())))
        .collect();
    let mut made: HashMap<Fault, usize> = HashMap::new();
    for _ in 0..rounds() {
        for fault in world_faults(&world) {
            let before = tally.more(&tally.good, 5, Duration::from_secs(60)).await;
            assert!(before, "{what}: nothing works before {fault:?}");
            world.begin(*fault).await;
            tally.more(&tally.ended, DURING, PATIENCE).await;
            world.end(*fault).await;
            *made.entry(*fault).or_default() += 1;
        }
    }
    let after = tally.more(&tally.good, 5, Duration::from_secs(60)).await;
    assert!(after, "{what}: it does not recover");
    tally.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    // Work whose caller has gone runs to its end.
    clock::sleep(Duration::from_millis(500)).await;
    let effects = world.effects().await;
    let histories = tally.histories.lock().unwrap();
    history::check_all(&histories, &effects).unwrap();
    let cut = world.cut();
    let mut made: Vec<_> = made
        .iter()
        .map(|(fault, count)| format!("{count} {fault:?}"))
        .collect();
    made.sort();
    if cut > 0 {
        made.push(format!("{cut} connections cut"));
    }
    println!(
        "{what}: {}; {} requests, {} keys, {} effects, no wrong history",
        made.join(", "),
        tally.ended.load(Ordering::SeqCst),
        histories.len(),
        effects.len(),
    );
}

fn form(database: &str, in_transaction: bool) -> String {
    let form = if in_transaction {
        "one transaction"
    } else {
        "two steps"
    };
    format!("{database}, {form}")
}

fn world_faults<W: World>(_: &W) -> &'static [Fault] {
    W::FAULTS
}

struct Sqlite {
    pool: SqlitePool,
    file: String,
    held: Option<sqlx::pool::PoolConnection<sqlx::Sqlite>>,
    writer: Option<(SqlitePool, sqlx::Transaction<'static, sqlx::Sqlite>)>,
    _folder: tempfile::TempDir,
}

impl Sqlite {
    /// On the connection that the store and the handlers use.
    async fn set(&self, pragma: &'static str) {
        sqlx::raw_sql(pragma).execute(&self.pool).await.unwrap();
    }

    /// From another connection, as the clock's change would come from outside.
    async fn shift(&self, statement: &'static str) {
        let other = sqlite_pool(&self.file).await;
        sqlx::raw_sql(statement).execute(&other).await.unwrap();
        other.close().await;
    }
}

impl World for Sqlite {
    const FAULTS: &'static [Fault] = &[
        Fault::ReadOnly,
        Fault::Full,
        Fault::Deadlock,
        Fault::Exhausted,
        Fault::ClockBack,
        Fault::ClockForward,
    ];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::ReadOnly => self.set("PRAGMA query_only = on").await,
            Fault::Full => self.set("PRAGMA max_page_count = 1").await,
            // Another process holds the file's only lock, and does not let go.
            Fault::Deadlock => {
                let pool = sqlite_pool(&self.file).await;
                let transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                self.writer = Some((pool, transaction));
            }
            Fault::Exhausted => self.held = Some(self.pool.acquire().await.unwrap()),
            Fault::ClockBack => {
                self.shift(
                    "UPDATE retryguard_idempotency
                     SET locked_until = locked_until + 3600000000, expires_at = expires_at + 3600000000",
                )
                .await;
            }
            Fault::ClockForward => {
                self.shift(
                    "UPDATE retryguard_idempotency
                     SET locked_until = locked_until - 3600000000, expires_at = expires_at - 3600000000",
                )
                .await;
            }
            Fault::Cut | Fault::Kill => panic!("a file has no server"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::ReadOnly => self.set("PRAGMA query_only = off").await,
            Fault::Full => self.set("PRAGMA max_page_count = 1000000").await,
            Fault::Deadlock => {
                let (pool, transaction) = self.writer.take().unwrap();
                transaction.rollback().await.unwrap();
                pool.close().await;
            }
            Fault::Exhausted => self.held = None,
            _ => {}
        }
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        Payments::Sqlite(self.pool.clone()).effects().await
    }
}

async fn sqlite_survives(in_transaction: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db").to_string_lossy().into_owned();
    drop(Payments::open(&file).await);
    // One connection for all, so that what is set on it holds for all.
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&file)
        .busy_timeout(Duration::from_millis(300));
    let pool = sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(1))
        .connect_with(options)
        .await
        .unwrap();
    let store = Arc::new(SqliteStore::with_pool(pool.clone()).await.unwrap());
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer(store).in_transaction(in_transaction))
        .with_state(Payments::Sqlite(pool.clone()));
    let world = Sqlite {
        pool,
        file,
        held: None,
        writer: None,
        _folder: folder,
    };
    survives(form("SQLite", in_transaction), world, app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    sqlite_survives(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_one_transaction() {
    sqlite_survives(true).await;
}

struct PostgresWorld {
    server: Postgres,
    proxy: Proxy,
    /// The pool of store and handlers, through the proxy.
    pool: PgPool,
    held: Vec<sqlx::pool::PoolConnection<sqlx::Postgres>>,
}

impl PostgresWorld {
    /// Past the proxy.
    async fn direct(&self, statements: &[&'static str]) {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect(&self.server.url())
            .await
            .unwrap();
        for statement in statements {
            sqlx::raw_sql(*statement).execute(&pool).await.unwrap();
        }
        pool.close().await;
    }

    /// Two transactions that take two rows in opposite orders, by the handlers' pool.
    async fn deadlock(&self) {
        let lock = async |first: &'static str, second: &'static str| {
            let mut transaction = self.pool.begin().await?;
            sqlx::raw_sql(first).execute(&mut *transaction).await?;
            clock::sleep(Duration::from_millis(20)).await;
            sqlx::raw_sql(second).execute(&mut *transaction).await?;
            transaction.commit().await
        };
        const A: &str = "UPDATE accounts SET cents = cents + 1 WHERE name = 'a'";
        const B: &str = "UPDATE accounts SET cents = cents + 1 WHERE name = 'b'";
        let (one, other) = tokio::join!(lock(A, B), lock(B, A));
        // The server ends one of the two, unless one was late.
        drop((one, other));
    }
}

impl World for PostgresWorld {
    const FAULTS: &'static [Fault] = &[
        Fault::Cut,
        Fault::Kill,
        Fault::ReadOnly,
        Fault::Full,
        Fault::Deadlock,
        Fault::Exhausted,
        Fault::ClockBack,
        Fault::ClockForward,
    ];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxy.cut(),
            Fault::Kill => {
                let process = self.server.process();
                tokio::task::block_in_place(|| process.kill());
            }
            Fault::ReadOnly => {
                self.direct(&[
                    "ALTER SYSTEM SET default_transaction_read_only = on",
                    "SELECT pg_reload_conf()",
                ])
                .await;
            }
            Fault::Full => {
                self.direct(&["ALTER TABLE payments ENABLE TRIGGER full_disk"])
                    .await;
            }
            Fault::Deadlock => self.deadlock().await,
            Fault::Exhausted => {
                while let Ok(connection) = self.pool.acquire().await {
                    self.held.push(connection);
                    if u32::try_from(self.held.len()).unwrap() == self.pool.options().get_max_connections() {
                        break;
                    }
                }
            }
            Fault::ClockBack => {
                self.direct(&[
                    "UPDATE retryguard_idempotency SET locked_until = locked_until + interval '1 hour',
                    expires_at = expires_at + interval '1 hour'",
                ])
                .await;
            }
            Fault::ClockForward => {
                self.direct(&[
                    "UPDATE retryguard_idempotency SET locked_until = locked_until - interval '1 hour',
                    expires_at = expires_at - interval '1 hour'",
                ])
                .await;
            }
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => tokio::task::block_in_place(|| self.server.restart()),
            Fault::ReadOnly => {
                self.direct(&[
                    "SET default_transaction_read_only = off",
                    "ALTER SYSTEM RESET default_transaction_read_only",
                    "SELECT pg_reload_conf()",
                ])
                .await;
            }
            Fault::Full => {
                self.direct(&["ALTER TABLE payments DISABLE TRIGGER full_disk"])
                    .await;
            }
            Fault::Exhausted => self.held.clear(),
            _ => {}
        }
    }

    fn cut(&self) -> usize {
        self.proxy.count()
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        let pool = PgPool::connect(&self.server.url()).await.unwrap();
        Payments::Postgres(pool).effects().await
    }
}

async fn postgres_survives(in_transaction: bool) {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port()).await;
    drop(Payments::open(&server.url()).await);
    let pool = PgPoolOptions::new()
        .max_connections(6)
        .acquire_timeout(Duration::from_secs(1))
        .connect(&proxy.through(&server.url()))
        .await
        .unwrap();
    let store = Arc::new(PostgresStore::with_pool(pool.clone()).await.unwrap());
    let world = PostgresWorld {
        server,
        proxy,
        pool: pool.clone(),
        held: Vec::new(),
    };
    world
        .direct(&[
            "ALTER SYSTEM SET deadlock_timeout = '50ms'",
            "SELECT pg_reload_conf()",
            "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents BIGINT NOT NULL)",
            "INSERT INTO accounts VALUES ('a', 0), ('b', 0)",
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
            "CREATE TRIGGER full_disk BEFORE INSERT ON payments EXECUTE FUNCTION full_disk()",
            "ALTER TABLE payments DISABLE TRIGGER full_disk",
        ])
        .await;
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer(store).in_transaction(in_transaction))
        .with_state(Payments::Postgres(pool));
    survives(form("PostgreSQL", in_transaction), world, app).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    postgres_survives(false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres_in_one_transaction() {
    postgres_survives(true).await;
}

/// Effects elsewhere than in Redis, with the claim's id as their unique key: the request and the name of its effect.
#[derive(Clone, Default)]
struct Elsewhere(Arc<Mutex<HashMap<String, (String, String)>>>);

async fn pay_elsewhere(
    State(elsewhere): State<Elsewhere>,
    Extension(claim): Extension<Claim>,
    body: String,
) -> Response<Body> {
    clock::sleep(Duration::from_millis(clock::below(3))).await;
    let mut all = elsewhere.0.lock().unwrap();
    let known = all.get(&claim.id().to_string()).cloned();
    let again = known.is_some();
    let (request, effect) = known.unwrap_or_else(|| (body.clone(), new_effect()));
    if request != body {
        // The key's record was lost with the store, and its effect was another request's.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    all.insert(claim.id().to_string(), (request, effect.clone()));
    let mut response = Response::new(Body::from(format!("receipt #{effect}")));
    if again {
        // As a service does whose answer to a known key says so.
        response
            .headers_mut()
            .insert("idempotency-replayed", http::HeaderValue::from_static("true"));
    }
    response
}

struct RedisWorld {
    server: Redis,
    proxy: Proxy,
    elsewhere: Elsewhere,
}

impl RedisWorld {
    async fn set(&self, name: &str, value: &str) {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(name).arg(value);
        let _: () = command.query_async(&mut connection).await.unwrap();
    }
}

impl World for RedisWorld {
    const FAULTS: &'static [Fault] = &[Fault::Cut, Fault::Kill, Fault::ReadOnly, Fault::Full];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxy.cut(),
            Fault::Kill => {
                let process = self.server.process();
                tokio::task::block_in_place(|| process.kill());
            }
            // Writes are refused without enough replicas, as by a primary that was cut off from them.
            Fault::ReadOnly => self.set("min-replicas-to-write", "1").await,
            Fault::Full => self.set("maxmemory", "1mb").await,
            other => panic!("{other:?} is no fault of Redis"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => tokio::task::block_in_place(|| self.server.restart()),
            Fault::ReadOnly => self.set("min-replicas-to-write", "0").await,
            Fault::Full => self.set("maxmemory", "0").await,
            _ => {}
        }
    }

    fn cut(&self) -> usize {
        self.proxy.count()
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        let mut effects: HashMap<String, Vec<String>> = HashMap::new();
        for (request, effect) in self.elsewhere.0.lock().unwrap().values() {
            effects
                .entry(payer(request).to_owned())
                .or_default()
                .push(effect.clone());
        }
        effects
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let server = Redis::start_durable();
    let proxy = Proxy::to(server.port()).await;
    let store = Arc::new(RedisStore::connect(&proxy.through(&server.url())).await.unwrap());
    let elsewhere = Elsewhere::default();
    let app = Router::new()
        .route("/pay", post(pay_elsewhere))
        .layer(layer(store))
        .with_state(elsewhere.clone());
    let world = RedisWorld {
        server,
        proxy,
        elsewhere,
    };
    survives("Redis, effects elsewhere".to_owned(), world, app).await;
}
