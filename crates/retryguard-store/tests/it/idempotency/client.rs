//! The client layer of `retryguard` and this layer, over real HTTP: a key is added once and kept across retries.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use retryguard::{Policy, Report, for_reqwest::Client};
use retryguard_store::idempotency::{IdempotencyLayer, MemoryStore};

const POLICY: &str = "
services:
  payments:
    maxRetries: 3
    initialDelay: 5ms
    budget: {percent: 1000%}
    breaker: off
    retryOn: [409]
    idempotency: {addKeys: true}
";

#[derive(Clone, Default)]
struct Seen {
    /// The keys as they arrive, before the layer.
    keys: Arc<Mutex<Vec<String>>>,
    effects: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
}

/// Fails the first attempt before it pays.
async fn pay(State(seen): State<Seen>) -> (StatusCode, String) {
    if seen.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    }
    let number = seen.effects.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::CREATED, format!("payment {number}"))
}

async fn serve(seen: Seen) -> String {
    let lost = Arc::new(AtomicUsize::new(0));
    let keys = seen.keys.clone();
    let app = Router::new()
        .route("/pay", post(pay))
        .with_state(seen)
        .layer(IdempotencyLayer::new(MemoryStore::new()).require_key(true))
        // Between client and layer: notes the key, and replaces the first success by a failure, as a proxy does
        // whose connection breaks after the server has done its work.
        .layer(axum::middleware::from_fn(
            move |request: axum::extract::Request, next: axum::middleware::Next| {
                let (keys, lost) = (keys.clone(), lost.clone());
                async move {
                    let key = &request.headers()["idempotency-key"];
                    keys.lock().unwrap().push(key.to_str().unwrap().to_owned());
                    let response = next.run(request).await;
                    if response.status() == 201 && lost.fetch_add(1, Ordering::SeqCst) == 0 {
                        let mut broken = axum::response::Response::default();
                        *broken.status_mut() = StatusCode::BAD_GATEWAY;
                        return broken;
                    }
                    response
                }
            },
        ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/pay", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[tokio::test]
async fn a_key_is_added_once_and_kept_across_retries() {
    let seen = Seen::default();
    let url = serve(seen.clone()).await;
    let client = Client::new(&Policy::parse(POLICY).unwrap(), "payments").unwrap();
    let payment = client
        .request(reqwest::Method::POST, url.as_str())
        .body("10 euros");
    let response = client.execute(payment.build().unwrap()).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["idempotency-replayed"], "true");
    let attempts = response.extensions().get::<Report>().unwrap().attempts;
    assert_eq!(attempts, 3, "a failure, a lost answer, a replay");
    assert_eq!(response.text().await.unwrap(), "payment 1");
    assert_eq!(seen.effects.load(Ordering::SeqCst), 1);
    let keys = seen.keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "one key: {keys:?}");

    // Another payment is another key.
    let payment = client
        .request(reqwest::Method::POST, url.as_str())
        .body("10 euros");
    let response = client.execute(payment.build().unwrap()).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "payment 2");
    assert_ne!(seen.keys.lock().unwrap()[3], keys[0]);
}
