//! The first calls of fresh clients.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, http::StatusCode, routing::get};
use retryguard::{Policy, for_http::HttpLayer, for_reqwest::Client};
use tower::{Layer, ServiceExt};

use crate::support::{
    loopback::serve,
    scripted::{self, Scripted, status},
    time::sleep,
};

/// The budget of a fresh client was empty: a first call that failed was not retried.
#[tokio::test]
async fn the_first_failing_call_of_a_fresh_client_is_retried() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let fails_once = move || async move {
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::OK,
        }
    };
    let server = serve(Router::new().route("/", get(fails_once))).await;
    let client = Client::new(&Policy::default(), "it").unwrap();
    let response = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

/// A whole fleet starts against a target that fails for its first five seconds. Each client retries its first call, and
/// then has no more than the share of its budget.
#[tokio::test(start_paused = true)]
async fn a_fleet_that_restarts_makes_no_storm() {
    const CLIENTS: usize = 300;
    const CALLS: usize = 10;
    let service = Scripted::new([status(500)]);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        // Parsed anew: a process of its own.
        let policy = Policy::parse("services: { it: { breaker: off } }").unwrap();
        let guarded = HttpLayer::new(&policy, "it").layer(service.clone());
        clients.push(tokio::spawn(async move {
            for _ in 0..CALLS {
                let _ = guarded.clone().oneshot(scripted::get()).await;
                sleep(1000).await;
            }
        }));
    }
    sleep(900).await;
    let first = service.attempts();
    assert!(
        first > CLIENTS && first <= 2 * CLIENTS,
        "{first}: one retry each at the most"
    );
    sleep(4100).await;
    service.goes_on([status(200)]);
    for client in clients {
        client.await.unwrap();
    }
    let retries = service.attempts() - CLIENTS * CALLS;
    let most = CLIENTS + CLIENTS * CALLS / 5;
    assert!(retries <= most, "{retries} retries, {most} allowed");
}
