//! A payment server that is killed again and again under load: nobody pays twice, and no payment that was
//! acknowledged is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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

use super::{backends, payments::Payments, processes};
use crate::clock;

const KILLS: usize = 200;
const PAYERS: usize = 8;
const ADDRESS: &str = "RETRYGUARD_TEST_PAYMENTS";

/// The server: `port address`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(wanted) = std::env::var(ADDRESS) else {
        return;
    };
    let (port, address) = wanted.split_once(' ').unwrap();
    let layer = IdempotencyLayer::shared(backends::open(address).await)
        .require_key(true)
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

/// Effect and record in one transaction.
async fn pay_once(payments: &Payments, claim: &Claim, payer: &str) -> Result<Response<Body>, StoreError> {
    let receipt = Response::new(format!("receipt {payer}"));
    let refused = |error: sqlx::Error| StoreError::Refused {
        backend: retryguard_store::Backend::Sqlite,
        cause: Box::new(error),
    };
    match payments {
        Payments::Sqlite(pool) => {
            let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(refused)?;
            let payment = sqlx::query("INSERT INTO payments VALUES (?)").bind(payer);
            payment.execute(&mut *transaction).await.map_err(refused)?;
            let receipt = claim.complete_in(&mut *transaction, receipt).await?;
            transaction.commit().await.map_err(refused)?;
            Ok(receipt)
        }
        Payments::Postgres(pool) => {
            let mut transaction = pool.begin().await.map_err(refused)?;
            let payment = sqlx::query("INSERT INTO payments VALUES ($1)").bind(payer);
            payment.execute(&mut *transaction).await.map_err(refused)?;
            let receipt = claim.complete_in(&mut *transaction, receipt).await?;
            transaction.commit().await.map_err(refused)?;
            Ok(receipt)
        }
        Payments::Redis(_) => panic!("Redis has no transactions with effects elsewhere"),
    }
}

#[derive(Default)]
struct Tally {
    over: AtomicBool,
    paid: AtomicUsize,
    sent: AtomicUsize,
    broken: AtomicUsize,
    replayed: AtomicUsize,
}

/// Pays under one key after the other; each is sent until it is acknowledged. Every tenth is sent twice at once.
async fn payer(number: usize, url: String, tally: Arc<Tally>) -> Vec<String> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .build()
        .unwrap();
    let mut rng = Rng::with_seed(number as u64);
    let mut acknowledged = Vec::new();
    while !tally.over.load(Ordering::Relaxed) {
        let payer = format!("payer {number} order {}", acknowledged.len());
        let twice = rng.u32(..10) == 0;
        let ask = || until_acknowledged(&client, &url, &payer, &tally);
        if twice {
            tokio::join!(ask(), ask());
        } else {
            ask().await;
        }
        acknowledged.push(payer);
        tally.paid.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

async fn until_acknowledged(client: &reqwest::Client, url: &str, payer: &str, tally: &Tally) {
    loop {
        tally.sent.fetch_add(1, Ordering::Relaxed);
        let request = client
            .post(format!("{url}/pay"))
            .header("idempotency-key", format!("\"{payer}\""))
            .body(payer.to_owned());
        if let Ok(response) = request.send().await {
            let status = response.status();
            let replayed = response.headers().contains_key("idempotency-replayed");
            assert!(
                matches!(status.as_u16(), 200 | 409 | 500 | 503),
                "{payer}: {status}"
            );
            if status == 200
                && let Ok(receipt) = response.text().await
            {
                assert_eq!(receipt, format!("receipt {payer}"));
                tally.replayed.fetch_add(usize::from(replayed), Ordering::Relaxed);
                return;
            }
        }
        tally.broken.fetch_add(1, Ordering::Relaxed);
        clock::sleep(Duration::from_millis(5)).await;
    }
}

fn start(port: u16, address: &str) -> Process {
    let wanted = format!("{port} {address}");
    let mut command = processes::command("idempotency::kills::server", ADDRESS, &wanted);
    command.stdout(std::process::Stdio::null());
    Process::start(command).unwrap()
}

async fn survives(address: &str) {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let tally = Arc::new(Tally::default());
    let payers: Vec<_> = (0..PAYERS)
        .map(|number| tokio::spawn(payer(number, url.clone(), tally.clone())))
        .collect();
    let mut rng = Rng::with_seed(0x6b69_6c6c);
    let mut server = start(port, address);
    let mut kills = 0;
    // A slow machine pays little between two kills, so it is killed more often.
    while kills < KILLS || (tally.paid.load(Ordering::Relaxed) <= KILLS && kills < 5 * KILLS) {
        kills += 1;
        tokio::task::block_in_place(|| assert!(answers(port, Duration::from_secs(30))));
        clock::sleep(Duration::from_micros(rng.u64(..60_000))).await;
        server.kill();
        server = start(port, address);
    }
    tally.over.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for payer in payers {
        acknowledged.extend(payer.await.unwrap());
    }
    server.kill();
    let paid = Payments::open(address).await.count().await;
    let twice: Vec<_> = paid.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "paid twice: {twice:?}");
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|payer| !paid.contains_key(*payer))
        .collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    println!(
        "{kills} kills; {} payments, {} requests, {} of them broken or refused, {} replayed",
        acknowledged.len(),
        tally.sent.load(Ordering::Relaxed),
        tally.broken.load(Ordering::Relaxed),
        tally.replayed.load(Ordering::Relaxed),
    );
    assert_eq!(paid.len(), acknowledged.len(), "whoever began has ended");
    assert!(acknowledged.len() > KILLS, "too little load to say anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = backends::sqlite().await;
    survives(place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    if let Some(place) = backends::postgres().await {
        survives(place.address.as_ref().unwrap()).await;
    }
}
