//! A payment endpoint that survives a kill between effect and response.
//!
//! `cargo run -p retryguard-examples --example payment`
//!
//! The server runs in a process of its own and is killed twice: before it has committed a payment, and after it
//! has committed one but before it has answered. The client does not notice: its policy adds a key and
//! retries. In the end there are two payments and two receipts.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::Context as _;
use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{Response, StatusCode},
    routing::post,
};
use retryguard::{Policy, Report, for_reqwest::Client};
use retryguard_examples::pause;
use retryguard_store::idempotency::{Claim, IdempotencyLayer, SqliteStore};
use sqlx::{Row as _, SqlitePool};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

const POLICY: &str = "
services:
  payments:
    maxRetries: 20
    initialDelay: 200ms
    budget: {percent: 1000%}
    breaker: off
    guard: off                     # a single call is too little to measure by
    retryOn: [409]                 # the first request with this key is still worked on
    idempotency: {addKeys: true}   # and the same key for every retry
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, database, port, hold] = arguments.as_slice()
        && role == "server"
    {
        return serve(Path::new(database), port, hold.clone()).await;
    }
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("payments.db");
    let port = std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port()
        .to_string();
    let client = Client::new(&Policy::parse(POLICY)?, "payments")?;
    for hold in ["before the commit", "between commit and response"] {
        let payment = client
            .request(reqwest::Method::POST, format!("http://127.0.0.1:{port}/payments"))
            .body("10 euros")
            .build()?;
        let mut server = start(&database, &port, hold).await?;
        let paying = tokio::spawn({
            let client = client.clone();
            async move { client.execute(payment).await }
        });
        wait_for(&mut server, "held").await?;
        server.kill().await?;
        println!(
            "killed {hold}; payments in the database: {}",
            count(&database).await?
        );
        let mut server = start(&database, &port, "never").await?;
        let response = paying.await??;
        let attempts = Report::of(response.extensions()).attempts;
        let replayed = response.headers().contains_key("idempotency-replayed");
        println!(
            "  the client: {} after {}, {}",
            response.status(),
            if attempts > 1 { "retries" } else { "one attempt" },
            if replayed {
                "the stored response"
            } else {
                "worked on anew"
            },
        );
        println!("  {}", response.text().await?);
        println!("  payments in the database: {}", count(&database).await?);
        server.kill().await?;
    }
    Ok(())
}

/// The server. It stops at the named point and waits to be killed.
async fn serve(database: &Path, port: &str, hold: String) -> anyhow::Result<()> {
    let store = SqliteStore::open(database).await?;
    let pool = store.pool().clone();
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS payments (number INTEGER PRIMARY KEY, what TEXT)")
        .execute(&pool)
        .await?;
    let layer = IdempotencyLayer::new(store)
        .require_key(true)
        // How long a killed server holds up its successor; the default of 30 s would make a slow example.
        .lock(Duration::from_secs(2));
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(layer)
        .with_state((pool, hold));
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("ready");
    axum::serve(listener, app).await?;
    Ok(())
}

async fn pay(
    State((pool, hold)): State<(SqlitePool, String)>,
    Extension(claim): Extension<Claim>,
    what: String,
) -> Result<Response<Body>, (StatusCode, String)> {
    // Any 5xx sets the key free, so that the client's retry is worked on.
    pay_once(&pool, &hold, &claim, &what)
        .await
        .map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

/// The effect and the key's completion are one transaction: both are there, or neither is.
async fn pay_once(
    pool: &SqlitePool,
    hold: &str,
    claim: &Claim,
    what: &str,
) -> anyhow::Result<Response<Body>> {
    let mut transaction = retryguard_store::sqlite::begin(pool).await?;
    let row = sqlx::query("INSERT INTO payments (what) VALUES (?) RETURNING number")
        .bind(what)
        .fetch_one(&mut *transaction)
        .await?;
    let receipt = format!("receipt {} for {what}", row.get::<i64, _>(0));
    let response = claim
        .complete_in(&mut *transaction, Response::new(receipt))
        .await?;
    stop_at(hold, "before the commit").await;
    transaction.commit().await?;
    stop_at(hold, "between commit and response").await;
    Ok(response)
}

async fn stop_at(hold: &str, point: &str) {
    if hold == point {
        println!("held");
        pause(60_000).await;
    }
}

async fn start(database: &Path, port: &str, hold: &str) -> anyhow::Result<Child> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg("server")
        .arg(database)
        .args([port, hold])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    wait_for(&mut server, "ready").await?;
    Ok(server)
}

/// Waits for a line of the server's.
async fn wait_for(server: &mut Child, wanted: &str) -> anyhow::Result<()> {
    let mut lines = BufReader::new(server.stdout.as_mut().context("its output is a pipe")?).lines();
    let line = lines.next_line().await?.context("the server ended")?;
    anyhow::ensure!(line == wanted, "the server said {line:?}");
    Ok(())
}

async fn count(database: &Path) -> anyhow::Result<i64> {
    let pool = SqlitePool::connect(&database.to_string_lossy()).await?;
    let row = sqlx::query("SELECT count(*) FROM payments")
        .fetch_one(&pool)
        .await?;
    Ok(row.get(0))
}
