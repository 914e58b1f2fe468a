//! A payment server that is killed again and again under load: no client pays twice, and no payment that was
//! acknowledged is lost.

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
use http::{Response, StatusCode};
use retryguard_parts::{Process, answers, free_port};
use retryguard_store::{
    StoreError,
    idempotency::{Claim, IdempotencyLayer},
};

use super::{
    backends,
    payments::{Payments, new_effect},
    processes,
};
use crate::{
    clock,
    history::{self, Operation, Seen},
    servers,
};

/// For each of the two forms of each database, where `RETRYGUARD_TEST_KILLS` is not set.
const KILLS: usize = 150;
const PAYERS: usize = 8;
const ADDRESS: &str = "RETRYGUARD_TEST_PAYMENTS";
const TWO_STEPS: &str = "two-steps";
const ONE_TRANSACTION: &str = "one-transaction";
const ELSEWHERE: &str = "effects-elsewhere";

/// The server: `port form address`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(wanted) = std::env::var(ADDRESS) else {
        return;
    };
    let (port, wanted) = wanted.split_once(' ').unwrap();
    let (form, address) = wanted.split_once(' ').unwrap();
    let layer = IdempotencyLayer::shared(backends::open(address).await)
        .require_key(true)
        .in_transaction(form == ONE_TRANSACTION)
        // Shorter than usual, so that what a kill has left is taken over while the test runs.
        .lock(Duration::from_millis(300))
        .store_timeout(Duration::from_secs(5));
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer)
        .with_state(Payments::open(address).await);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}"))
        .await
        .unwrap();
    axum::serve(listener, app).await.unwrap();
}

async fn pay(
    State(payments): State<Payments>,
    Extension(claim): Extension<Claim>,
    payer: String,
) -> Response<Body> {
    match pay_once(&payments, &claim, &payer).await {
        Ok(response) => response,
        Err(StoreError::ClaimLost) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Effect and record in one transaction: `complete_in` in two steps, `commit` where the transaction claims the key as well.
pub(super) async fn pay_once(
    payments: &Payments,
    claim: &Claim,
    payer: &str,
) -> Result<Response<Body>, StoreError> {
    let effect = new_effect();
    let receipt = Response::new(format!("receipt {payer}#{effect}"));
    let in_one = claim.token().is_none();
    let refused = |error: sqlx::Error| StoreError::Refused {
        backend: retryguard_store::Backend::Sqlite,
        cause: Box::new(error),
    };
    match payments {
        Payments::Sqlite(pool) => {
            let mut transaction = retryguard_store::sqlite::begin(pool).await.map_err(refused)?;
            let payment = sqlx::query("INSERT INTO payments VALUES (?, ?)")
                .bind(payer)
                .bind(&effect);
            payment.execute(&mut *transaction).await.map_err(refused)?;
            if in_one {
                return claim.commit(transaction, receipt).await;
            }
            let receipt = claim.complete_in(&mut *transaction, receipt).await?;
            transaction.commit().await.map_err(refused)?;
            Ok(receipt)
        }
        Payments::Postgres(pool) => {
            let mut transaction = pool.begin().await.map_err(refused)?;
            let payment = sqlx::query("INSERT INTO payments VALUES ($1, $2)")
                .bind(payer)
                .bind(&effect);
            payment.execute(&mut *transaction).await.map_err(refused)?;
            if in_one {
                return claim.commit(transaction, receipt).await;
            }
            let receipt = claim.complete_in(&mut *transaction, receipt).await?;
            transaction.commit().await.map_err(refused)?;
            Ok(receipt)
        }
        Payments::Redis(connection) => pay_elsewhere(connection.clone(), claim, payer, effect).await,
    }
}

/// Beside Redis the effect is at a service that knows the claim's id as its unique key, and says that it knew it.
async fn pay_elsewhere(
    mut connection: redis::aio::ConnectionManager,
    claim: &Claim,
    payer: &str,
    effect: String,
) -> Result<Response<Body>, StoreError> {
    const PAY: &str = "
        if redis.call('SETNX', KEYS[2], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[1], ARGV[1]) end
        return redis.call('GET', KEYS[2])";
    let mut command = redis::cmd("EVAL");
    command
        .arg(PAY)
        .arg(2)
        .arg(format!("payments:{payer}"))
        .arg(format!("paid:{}", claim.id()))
        .arg(&effect);
    let refused = |error: redis::RedisError| StoreError::Refused {
        backend: retryguard_store::Backend::Redis,
        cause: Box::new(error),
    };
    let known: String = command.query_async(&mut connection).await.map_err(refused)?;
    let mut receipt = Response::new(Body::from(format!("receipt {payer}#{known}")));
    if known != effect {
        let replayed = http::HeaderValue::from_static("true");
        receipt.headers_mut().insert("idempotency-replayed", replayed);
    }
    Ok(receipt)
}

/// What all clients have seen.
#[derive(Default)]
struct Tally {
    over: AtomicBool,
    paid: AtomicUsize,
    /// One moment after the other, for the histories.
    moment: AtomicU64,
    histories: Mutex<HashMap<String, Vec<Operation>>>,
}

impl Tally {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, payer: &str, began: u64, seen: Seen) {
        let ended = (seen != Seen::Unknown).then(|| self.now());
        let operation = Operation {
            request: payer.to_owned(),
            began,
            ended,
            seen,
        };
        let mut all = self.histories.lock().unwrap();
        let history = all.entry(payer.to_owned()).or_default();
        // A refusal says nothing that another has not said, and the search has room for 64.
        if history.len() < 60 || operation.seen != Seen::Refused {
            history.push(operation);
        }
    }

    fn sum(&self, what: impl Fn(&Seen) -> bool) -> usize {
        let all = self.histories.lock().unwrap();
        all.values().flatten().filter(|one| what(&one.seen)).count()
    }
}

/// Pays under one key after the other; each is sent until it is acknowledged. Every tenth is sent twice at once.
async fn payer(number: usize, url: String, tally: Arc<Tally>) {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap();
    let mut rng = Rng::with_seed(number as u64);
    for order in 0.. {
        if tally.over.load(Ordering::Relaxed) {
            return;
        }
        let payer = format!("payer {number} order {order}");
        let ask = || until_acknowledged(&client, &url, &payer, &tally);
        if rng.u32(..10) == 0 {
            tokio::join!(ask(), ask());
        } else {
            ask().await;
        }
        tally.paid.fetch_add(1, Ordering::Relaxed);
    }
}

async fn until_acknowledged(client: &reqwest::Client, url: &str, payer: &str, tally: &Tally) {
    loop {
        let began = tally.now();
        let seen = ask(client, url, payer).await;
        let paid = matches!(seen, Some(Seen::First(_) | Seen::Replayed(_)));
        // A server that is not there has done nothing.
        if let Some(seen) = seen {
            tally.note(payer, began, seen);
        }
        if paid {
            return;
        }
        clock::sleep(Duration::from_millis(20)).await;
    }
}

/// None where the server could not be reached.
async fn ask(client: &reqwest::Client, url: &str, payer: &str) -> Option<Seen> {
    let request = client
        .post(format!("{url}/pay"))
        .header("idempotency-key", format!("\"{payer}\""))
        .body(payer.to_owned());
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return None,
        Err(_) => return Some(Seen::Unknown),
    };
    let status = response.status().as_u16();
    let replayed = response.headers().contains_key("idempotency-replayed");
    assert!(matches!(status, 200 | 409 | 500 | 503), "{payer}: {status}");
    let Ok(receipt) = response.text().await else {
        return Some(Seen::Unknown);
    };
    Some(match status {
        200 => {
            let (whose, effect) = receipt.split_once('#').unwrap();
            assert_eq!(whose, format!("receipt {payer}"));
            let effect = effect.to_owned();
            if replayed {
                Seen::Replayed(effect)
            } else {
                Seen::First(effect)
            }
        }
        409 => Seen::Refused,
        _ => Seen::Unknown,
    })
}

fn start(port: u16, form: &str, address: &str) -> Process {
    let wanted = format!("{port} {form} {address}");
    let mut command = processes::command("idempotency::kills::server", ADDRESS, &wanted);
    command.stdout(std::process::Stdio::null());
    Process::start(command).unwrap()
}

async fn survives(database: &str, form: &str, address: &str) {
    let wanted = servers::kills().unwrap_or(KILLS);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let tally = Arc::new(Tally::default());
    let payers: Vec<_> = (0..PAYERS)
        .map(|number| tokio::spawn(payer(number, url.clone(), tally.clone())))
        .collect();
    let mut rng = Rng::with_seed(0x6b69_6c6c);
    let mut server = start(port, form, address);
    let mut kills = 0;
    while kills < wanted {
        kills += 1;
        tokio::task::block_in_place(|| assert!(answers(port, Duration::from_secs(60))));
        // In the middle of a payment, however slow the machine is: after some more have been made, or soon.
        let enough = tally.paid.load(Ordering::Relaxed) + rng.usize(..4);
        let patience = clock::now() + Duration::from_secs(2);
        while tally.paid.load(Ordering::Relaxed) < enough && clock::now() < patience {
            clock::sleep(Duration::from_millis(1)).await;
        }
        clock::sleep(Duration::from_micros(rng.u64(..5_000))).await;
        server.kill();
        server = start(port, form, address);
    }
    tally.over.store(true, Ordering::Relaxed);
    for payer in payers {
        payer.await.unwrap();
    }
    server.kill();
    let effects = Payments::open(address).await.effects().await;
    history::check_all(&tally.histories.lock().unwrap(), &effects).unwrap();
    println!(
        "faults\t{database}, {}\tserver killed {kills}×; {} payments, {} answers lost, {} refused, {} replayed, no wrong history",
        form.replace('-', " "),
        effects.len(),
        tally.sum(|seen| *seen == Seen::Unknown),
        tally.sum(|seen| *seen == Seen::Refused),
        tally.sum(|seen| matches!(seen, Seen::Replayed(_))),
    );
    assert!(effects.len() > wanted / 2, "too little load to say anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = backends::sqlite().await;
    survives("SQLite", TWO_STEPS, place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    survives("PostgreSQL", TWO_STEPS, place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_one_transaction() {
    let place = backends::sqlite().await;
    survives("SQLite", ONE_TRANSACTION, place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres_in_one_transaction() {
    let place = backends::postgres().await;
    survives("PostgreSQL", ONE_TRANSACTION, place.address.as_ref().unwrap()).await;
}

/// Redis itself stays: the records outlive the server.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let place = backends::redis().await;
    survives("Redis", ELSEWHERE, place.address.as_ref().unwrap()).await;
}
