//! Claim, effect and response in one transaction.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use retryguard_store::{
    StoreError,
    idempotency::{Claim, IdempotencyLayer, IdempotencyStore},
};
use tower::ServiceExt as _;

use super::{backends, kills::pay_once, payments::Payments};

#[derive(Clone)]
struct Shop {
    payments: Payments,
    calls: Arc<AtomicUsize>,
}

async fn pay(State(shop): State<Shop>, Extension(claim): Extension<Claim>, payer: String) -> Response<Body> {
    shop.calls.fetch_add(1, Ordering::SeqCst);
    if payer.starts_with("refused") {
        return (StatusCode::BAD_REQUEST, "no such payer").into_response();
    }
    if payer.starts_with("fails") && shop.calls.load(Ordering::SeqCst) == 1 {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    match pay_once(&shop.payments, &claim, &payer).await {
        Ok(response) => response,
        Err(StoreError::ClaimLost) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn server_of(shop: &Shop, store: Arc<dyn IdempotencyStore>) -> Router {
    let layer = IdempotencyLayer::shared(store)
        .in_transaction(true)
        .store_timeout(Duration::from_secs(30));
    Router::new()
        .route("/pay", post(pay))
        .layer(layer)
        .with_state(shop.clone())
}

struct Server {
    app: Router,
    shop: Shop,
}

impl Server {
    async fn new(store: Arc<dyn IdempotencyStore>, address: &str) -> Self {
        let shop = Shop {
            payments: Payments::open(address).await,
            calls: Arc::default(),
        };
        let app = server_of(&shop, store);
        Self { app, shop }
    }

    /// Status, body, and whether it was replayed.
    async fn ask(&self, key: &str, payer: &str) -> (u16, String, bool) {
        let request = Request::post("/pay")
            .header("idempotency-key", format!("\"{key}\""))
            .body(Body::from(payer.to_owned()))
            .unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        // Without the name of the effect.
        let body = body
            .split_once('#')
            .map_or(body.as_str(), |(receipt, _)| receipt)
            .to_owned();
        (status, body, replayed)
    }

    /// How often the handler was called since it was last asked.
    fn calls(&self) -> usize {
        self.shop.calls.swap(0, Ordering::SeqCst)
    }
}

async fn holds(address: &str) {
    let server = Server::new(backends::open(address).await, address).await;
    let paid = |payer: &str| (200, format!("receipt {payer}"), false);
    let again = |payer: &str| (200, format!("receipt {payer}"), true);

    assert_eq!(server.ask("a", "ann").await, paid("ann"));
    assert_eq!(server.ask("a", "ann").await, again("ann"));
    assert_eq!(server.calls(), 1);
    assert_eq!(server.ask("a", "bob").await.0, 422, "another request");

    // A refusal without an effect is stored when the handler has ended.
    assert_eq!(
        server.ask("b", "refused").await,
        (400, "no such payer".to_owned(), false)
    );
    assert_eq!(
        server.ask("b", "refused").await,
        (400, "no such payer".to_owned(), true)
    );
    assert_eq!(server.calls(), 1);

    // A failure leaves nothing behind.
    assert_eq!(server.ask("c", "fails").await.0, 500);
    assert_eq!(server.ask("c", "fails").await, paid("fails"));
    assert_eq!(server.calls(), 2);

    many_at_once(address, &server).await;
    other_requests_at_once(address, &server).await;
    in_one_process(&server).await;
    let counts = server.shop.payments.count().await;
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(counts.len(), 2 + ROUNDS + 1 + 1);
}

const ROUNDS: usize = 20;

/// As many layers as there are processes: each knows only of its own requests.
async fn processes(address: &str, first: &Server) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..6 {
        let shop = Shop {
            payments: Payments::open(address).await,
            calls: first.shop.calls.clone(),
        };
        let app = server_of(&shop, backends::open(address).await);
        servers.push(Server { app, shop });
    }
    servers
}

/// The unique key decides; all others get the winner's response.
async fn many_at_once(address: &str, server: &Server) {
    let servers = processes(address, server).await;
    let mut collided = 0;
    for round in 0..ROUNDS {
        let payer = format!("crowd {round}");
        let asks = servers.iter().map(|server| server.ask(&payer, &payer));
        let mut firsts = 0;
        for (status, body, replayed) in join_all(asks.collect()).await {
            assert_eq!((status, body), (200, format!("receipt {payer}")));
            firsts += usize::from(!replayed);
        }
        assert_eq!(firsts, 1, "{payer}");
        collided += server.calls() - 1;
    }
    println!("{collided} handlers rolled back because another was faster");
}

/// One of several requests with the same key is worked on. The others are other requests, whether or not their handlers
/// had begun.
async fn other_requests_at_once(address: &str, server: &Server) {
    let servers = processes(address, server).await;
    let payers: Vec<String> = (0..servers.len())
        .map(|number| format!("other {number}"))
        .collect();
    let asks = servers
        .iter()
        .zip(&payers)
        .map(|(server, payer)| server.ask("other", payer));
    let mut statuses: Vec<u16> = join_all(asks.collect())
        .await
        .into_iter()
        .map(|(status, _, _)| status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422, 422, 422, 422, 422]);
    server.calls();
}

/// Duplicates in one process wait for the first: their handlers do not run.
async fn in_one_process(server: &Server) {
    let asks = (0..50).map(|_| server.ask("one process", "one process"));
    let mut firsts = 0;
    for (status, body, replayed) in join_all(asks.collect()).await {
        assert_eq!((status, body), (200, "receipt one process".to_owned()));
        firsts += usize::from(!replayed);
    }
    assert_eq!((firsts, server.calls()), (1, 1));
}

async fn join_all<T>(mut futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.drain(..).map(Box::pin).collect();
    let mut done: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, slot) in pinned.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            return std::task::Poll::Ready(done.iter_mut().filter_map(Option::take).collect());
        }
        std::task::Poll::Pending
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = backends::sqlite().await;
    holds(place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    holds(place.address.as_ref().unwrap()).await;
}

#[tokio::test]
async fn a_store_without_transactions_refuses() {
    let place = backends::sqlite().await;
    let server = Server::new(backends::memory().store, place.address.as_ref().unwrap()).await;
    assert_eq!(server.ask("a", "ann").await.0, 503);
    assert_eq!(server.calls(), 0, "nothing is done");
}
