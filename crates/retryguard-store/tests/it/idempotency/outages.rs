//! Redis and PostgreSQL stopped, killed, started again and paused under load: requests end in time with a clear
//! answer, and everything goes on by itself afterwards.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, routing::post};
use retryguard_parts::{Postgres, Redis};
use retryguard_store::idempotency::{IdempotencyLayer, IdempotencyStore, OnStoreFailure};

use super::backends;
use crate::clock;

const CLIENTS: usize = 6;
/// What each request gives the server.
const DEADLINE: Duration = Duration::from_millis(500);
/// A request that takes longer than this hangs: many times its deadline, so that a busy machine is not a failure.
const HANGS: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Tally {
    over: AtomicBool,
    effects: Mutex<HashMap<String, usize>>,
    good: AtomicUsize,
    refused: AtomicUsize,
}

impl Tally {
    fn read(&self, counter: &AtomicUsize) -> usize {
        counter.load(Ordering::SeqCst)
    }

    /// Waits until a counter has gone on by this many.
    async fn more(&self, counter: &AtomicUsize, count: usize, what: &str) {
        let before = self.read(counter);
        let passed = async {
            while self.read(counter) < before + count {
                clock::sleep(Duration::from_millis(20)).await;
            }
        };
        let limit = Duration::from_secs(60);
        assert!(tokio::time::timeout(limit, passed).await.is_ok(), "{what}");
    }
}

async fn pay(State(tally): State<Arc<Tally>>, payer: String) {
    *tally.effects.lock().unwrap().entry(payer).or_default() += 1;
}

async fn serve(store: Arc<dyn IdempotencyStore>, tally: Arc<Tally>, failure: OnStoreFailure) -> String {
    let layer = IdempotencyLayer::shared(store).on_store_failure(failure);
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer)
        .with_state(tally);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/pay", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

async fn client(number: usize, url: String, tally: Arc<Tally>) {
    let client = reqwest::Client::new();
    for order in 0.. {
        if tally.over.load(Ordering::SeqCst) {
            return;
        }
        let payer = format!("{number} {order}");
        let request = client
            .post(&url)
            .header("idempotency-key", format!("\"{payer}\""))
            .header("retryguard-deadline-ms", DEADLINE.as_millis().to_string())
            .body(payer)
            .send();
        let response = tokio::time::timeout(HANGS, request).await;
        let response = response.expect("a request hangs").expect("the server lives");
        match response.status().as_u16() {
            200 => {
                tally.good.fetch_add(1, Ordering::SeqCst);
            }
            // The store was too slow for the deadline, or away.
            503 | 504 => {
                let problem = response.text().await.unwrap();
                assert!(problem.contains("nothing was done"), "{problem}");
                tally.refused.fetch_add(1, Ordering::SeqCst);
                clock::sleep(Duration::from_millis(10)).await;
            }
            other => panic!("{other}: {}", response.text().await.unwrap()),
        }
    }
}

/// A server whose faults the test makes.
trait Fault {
    fn url(&self) -> String;
    fn kill(&mut self);
    fn restart(&mut self);
    fn pause(&self);
    fn resume(&self);
}

impl Fault for Redis {
    fn url(&self) -> String {
        Redis::url(self)
    }
    fn kill(&mut self) {
        self.process().kill();
    }
    fn restart(&mut self) {
        Redis::restart(self);
    }
    fn pause(&self) {
        Redis::pause(self);
    }
    fn resume(&self) {
        Redis::resume(self);
    }
}

impl Fault for Postgres {
    fn url(&self) -> String {
        Postgres::url(self)
    }
    fn kill(&mut self) {
        self.stop();
    }
    fn restart(&mut self) {
        Postgres::restart(self);
    }
    fn pause(&self) {
        Postgres::pause(self);
    }
    fn resume(&self) {
        Postgres::resume(self);
    }
}

async fn goes_on(mut server: impl Fault) {
    let tally = Arc::new(Tally::default());
    let store = backends::open(&server.url()).await;
    let url = serve(store.clone(), tally.clone(), OnStoreFailure::Refuse).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(number, url.clone(), tally.clone())))
        .collect();
    tally
        .more(&tally.good, 50, "nothing works before any fault")
        .await;
    for _ in 0..3 {
        tokio::task::block_in_place(|| server.kill());
        tally
            .more(&tally.refused, 20, "no client was told that the store is away")
            .await;
        tokio::task::block_in_place(|| server.restart());
        tally
            .more(&tally.good, 50, "it did not recover from a restart")
            .await;

        server.pause();
        tally
            .more(&tally.refused, 20, "no client was told that the store is slow")
            .await;
        server.resume();
        tally
            .more(&tally.good, 50, "it did not recover from a pause")
            .await;
    }
    // A service that has chosen so goes on without protection.
    server.pause();
    let open = Arc::new(Tally::default());
    let unguarded = serve(store, open.clone(), OnStoreFailure::Proceed).await;
    let patient = reqwest::Client::new()
        .post(unguarded)
        .header("idempotency-key", "\"open\"")
        .body("open")
        .send();
    assert_eq!(patient.await.unwrap().status(), 200);
    assert_eq!(open.effects.lock().unwrap()["open"], 1);
    server.resume();

    tally.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    let effects = tally.effects.lock().unwrap().clone();
    assert!(
        effects.values().all(|count| *count == 1),
        "every key was sent once"
    );
    println!(
        "{} paid, {} refused",
        tally.read(&tally.good),
        tally.read(&tally.refused)
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    goes_on(Redis::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    goes_on(Postgres::start()).await;
}
