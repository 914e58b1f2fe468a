//! What a client sees of the layer, around an axum router.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, body::Body, response::IntoResponse as _, routing::post};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use retryguard_store::idempotency::{
    Claim, IDEMPOTENCY_REPLAYED, IdempotencyLayer, IdempotencyStore, MemoryStore, OnStoreFailure, Standing,
    StoreFuture,
};
use retryguard_store::{Backend, StoreError};
use tokio::sync::Notify;
use tower::ServiceExt as _;

/// A router that counts what it has done.
struct Shop {
    app: Router,
    done: Arc<AtomicUsize>,
}

impl Shop {
    fn new(layer: IdempotencyLayer, handler: fn(usize, Bytes) -> Response<Body>) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let counter = done.clone();
        let work =
            move |body: Bytes| async move { handler(counter.fetch_add(1, Ordering::SeqCst) + 1, body) };
        let app = Router::new()
            .route("/pay", post(work.clone()).put(work.clone()))
            .route("/refund", post(work))
            .layer(layer);
        Self { app, done }
    }

    fn simple(layer: IdempotencyLayer) -> Self {
        Self::new(layer, |number, body| {
            let text = format!("effect {number} of {} bytes", body.len());
            ([("x-receipt", number.to_string())], text).into_response()
        })
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.app.clone().oneshot(request).await.unwrap();
        Answer::of(response).await
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    body: String,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    fn replayed(&self) -> bool {
        self.headers.contains_key(IDEMPOTENCY_REPLAYED)
    }
}

fn pay(key: &str, body: &'static str) -> Request<Body> {
    request("POST", "/pay", Some(key), body)
}

fn request(method: &str, path: &str, key: Option<&str>, body: &'static str) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path);
    if let Some(key) = key {
        builder = builder.header("idempotency-key", key);
    }
    builder.body(Body::from(body)).unwrap()
}

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(MemoryStore::new())
}

#[tokio::test]
async fn a_duplicate_gets_the_stored_response_and_does_nothing() {
    let shop = Shop::simple(layer());
    let first = shop.ask(pay("\"a\"", "10 euros")).await;
    assert_eq!((first.status.as_u16(), first.replayed()), (200, false));
    let again = shop.ask(pay("\"a\"", "10 euros")).await;
    assert!(again.replayed());
    assert_eq!(again.status, first.status);
    assert_eq!(again.body, "effect 1 of 8 bytes");
    assert_eq!(again.headers["x-receipt"], "1");
    assert_eq!(again.headers["content-type"], first.headers["content-type"]);
    assert_eq!(shop.done(), 1);
    assert_eq!(
        shop.ask(pay("\"b\"", "10 euros")).await.body,
        "effect 2 of 8 bytes"
    );
}

#[tokio::test]
async fn another_body_or_query_under_the_same_key_is_refused() {
    let shop = Shop::simple(layer());
    shop.ask(pay("\"a\"", "10 euros")).await;
    let other = shop.ask(pay("\"a\"", "99 euros")).await;
    assert_eq!(other.status, 422);
    assert_eq!(other.headers["content-type"], "application/problem+json");
    assert!(
        other.body.contains("Idempotency-Key is already used"),
        "{}",
        other.body
    );
    let query = request("POST", "/pay?to=me", Some("\"a\""), "10 euros");
    assert_eq!(shop.ask(query).await.status, 422);
    assert_eq!(shop.done(), 1);

    let shop = Shop::simple(layer().other_request(StatusCode::CONFLICT));
    shop.ask(pay("\"a\"", "1")).await;
    assert_eq!(shop.ask(pay("\"a\"", "2")).await.status, 409);
}

#[tokio::test]
async fn a_missing_key_is_refused_where_one_is_required() {
    let page = "https://example.org/keys";
    let shop = Shop::simple(layer().require_key(true).documentation(page));
    let missing = shop.ask(request("POST", "/pay", None, "x")).await;
    assert_eq!(missing.status, 400);
    assert_eq!(
        missing.headers["link"],
        "<https://example.org/keys>; rel=\"describedby\""
    );
    let problem: serde_json::Value = serde_json::from_str(&missing.body).unwrap();
    assert_eq!(problem["title"], "Idempotency-Key is missing");
    assert_eq!(problem["type"], page);
    assert_eq!(shop.done(), 0);
    // PUT is idempotent by itself.
    assert_eq!(shop.ask(request("PUT", "/pay", None, "x")).await.status, 200);
    // Without the setting a request without a key is as it was.
    let shop = Shop::simple(layer());
    shop.ask(request("POST", "/pay", None, "x")).await;
    shop.ask(request("POST", "/pay", None, "x")).await;
    assert_eq!(shop.done(), 2);
}

#[tokio::test]
async fn a_malformed_key_is_refused_with_its_reason() {
    let shop = Shop::simple(layer());
    let bare = shop.ask(pay("abc", "x")).await;
    assert_eq!(bare.status, 400);
    assert!(bare.body.contains("double quotes"), "{}", bare.body);
    let long = format!("\"{}\"", "k".repeat(256));
    let long = shop.ask(pay(&long, "x")).await;
    assert!(
        long.body.contains("256 characters, and the limit is 255"),
        "{}",
        long.body
    );
    let fits = format!("\"{}\"", "k".repeat(255));
    assert_eq!(shop.ask(pay(&fits, "x")).await.status, 200);
    assert_eq!(shop.done(), 1);
    let shop = Shop::simple(layer().accept_bare_keys(true));
    shop.ask(pay("abc", "x")).await;
    assert!(shop.ask(pay("\"abc\"", "x")).await.replayed());
}

#[tokio::test]
async fn only_final_responses_are_stored() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let failing: fn(usize, Bytes) -> Response<Body> = match status {
            408 => |number, _| fails_once(number, 408),
            425 => |number, _| fails_once(number, 425),
            429 => |number, _| fails_once(number, 429),
            500 => |number, _| fails_once(number, 500),
            502 => |number, _| fails_once(number, 502),
            503 => |number, _| fails_once(number, 503),
            _ => |number, _| fails_once(number, 504),
        };
        let shop = Shop::new(layer(), failing);
        assert_eq!(shop.ask(pay("\"a\"", "x")).await.status.as_u16(), status);
        let retry = shop.ask(pay("\"a\"", "x")).await;
        assert_eq!(
            (retry.status.as_u16(), retry.replayed()),
            (200, false),
            "{status}"
        );
        assert!(shop.ask(pay("\"a\"", "x")).await.replayed());
        assert_eq!(shop.done(), 2);
    }
    // A refusal that a retry would not change is final.
    let shop = Shop::new(layer(), |_, _| StatusCode::NOT_FOUND.into_response());
    shop.ask(pay("\"a\"", "x")).await;
    let again = shop.ask(pay("\"a\"", "x")).await;
    assert_eq!((again.status.as_u16(), again.replayed()), (404, true));
    assert_eq!(shop.done(), 1);
}

fn fails_once(number: usize, status: u16) -> Response<Body> {
    let status = if number == 1 { status } else { 200 };
    StatusCode::from_u16(status).unwrap().into_response()
}

#[tokio::test]
async fn keys_are_scoped_by_principal_method_route_and_namespace() {
    let store = MemoryStore::new();
    let shop =
        Shop::simple(IdempotencyLayer::new(store.clone()).methods([http::Method::POST, http::Method::PUT]));
    let as_user = |user: &str, path: &str, method: &str| {
        let mut request = request(method, path, Some("\"a\""), "x");
        request
            .headers_mut()
            .insert("authorization", user.parse().unwrap());
        request
    };
    assert_eq!(
        shop.ask(as_user("alice", "/pay", "POST")).await.body,
        "effect 1 of 1 bytes"
    );
    assert_eq!(
        shop.ask(as_user("bob", "/pay", "POST")).await.body,
        "effect 2 of 1 bytes"
    );
    assert_eq!(
        shop.ask(as_user("alice", "/refund", "POST")).await.body,
        "effect 3 of 1 bytes"
    );
    assert_eq!(
        shop.ask(as_user("alice", "/pay", "PUT")).await.body,
        "effect 4 of 1 bytes"
    );
    assert!(shop.ask(as_user("alice", "/pay", "POST")).await.replayed());
    let other = Shop::simple(IdempotencyLayer::new(store).namespace("other"));
    assert!(!other.ask(as_user("alice", "/pay", "POST")).await.replayed());

    let by_tenant = layer().principal(|head| {
        let tenant = head.headers.get("x-tenant");
        tenant
            .map(|tenant| tenant.as_bytes().to_vec())
            .unwrap_or_default()
    });
    let shop = Shop::simple(by_tenant);
    shop.ask(as_user("old token", "/pay", "POST")).await;
    assert!(shop.ask(as_user("new token", "/pay", "POST")).await.replayed());
}

#[tokio::test]
async fn the_limits_of_bodies_are_exact() {
    let shop = Shop::simple(layer().request_limit(8));
    assert_eq!(shop.ask(pay("\"a\"", "12345678")).await.status, 200);
    let large = shop.ask(pay("\"b\"", "123456789")).await;
    assert_eq!(large.status, 413);
    assert!(large.body.contains("8 bytes"), "{}", large.body);
    assert_eq!(shop.done(), 1);
}

#[tokio::test]
async fn a_response_too_large_to_be_kept_reaches_its_client_and_is_not_done_again() {
    let large: fn(usize, Bytes) -> Response<Body> = |_, _| {
        let mut response = Response::new(Body::from("0123456789"));
        *response.status_mut() = StatusCode::CREATED;
        response
    };
    let shop = Shop::new(layer().response_limit(10), large);
    shop.ask(pay("\"a\"", "x")).await;
    assert!(shop.ask(pay("\"a\"", "x")).await.replayed());

    let shop = Shop::new(layer().response_limit(9), large);
    let first = shop.ask(pay("\"a\"", "x")).await;
    assert_eq!((first.status.as_u16(), first.body.as_str()), (201, "0123456789"));
    let again = shop.ask(pay("\"a\"", "x")).await;
    assert_eq!(again.status, 409);
    assert!(again.body.contains("answered with 201 Created"), "{}", again.body);
    assert!(!again.headers.contains_key("retry-after"));
    assert_eq!(shop.done(), 1);
}

/// A handler that can be held, to look at what happens meanwhile.
struct Held {
    app: Router,
    done: Arc<AtomicUsize>,
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

fn held(layer: IdempotencyLayer) -> Held {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let done = Arc::new(AtomicUsize::new(0));
    let (started, allowed, counter) = (begun.clone(), go.clone(), done.clone());
    let handler = move || async move {
        started.notify_one();
        allowed.notified().await;
        format!("effect {}", counter.fetch_add(1, Ordering::SeqCst) + 1)
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer);
    Held { app, done, begun, go }
}

#[tokio::test]
async fn a_concurrent_duplicate_waits_for_the_first() {
    let shop = held(layer());
    let first = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    let second = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    shop.go.notify_one();
    let first = Answer::of(first.await.unwrap().unwrap()).await;
    let second = Answer::of(second.await.unwrap().unwrap()).await;
    assert_eq!((first.body.as_str(), first.replayed()), ("effect 1", false));
    assert_eq!((second.body.as_str(), second.replayed()), ("effect 1", true));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_has_waited_long_enough_is_told_to_come_back() {
    let shop = held(layer().wait(Duration::from_secs(2)));
    let first = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    let second = Answer::of(shop.app.clone().oneshot(pay("\"a\"", "x")).await.unwrap()).await;
    assert_eq!(second.status, 409);
    assert_eq!(second.headers["retry-after"], "1");
    assert!(second.body.contains("outstanding"), "{}", second.body);
    shop.go.notify_one();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
}

/// Time is paused: a wait that is longer than the deadline would be seen.
#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_no_longer_than_its_deadline() {
    let shop = held(layer());
    let _first = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    let before = crate::clock::now();
    let mut hurried = pay("\"a\"", "x");
    hurried
        .headers_mut()
        .insert("retryguard-deadline-ms", "300".parse().unwrap());
    let answer = shop.app.clone().oneshot(hurried).await.unwrap();
    assert_eq!(answer.status(), 409);
    assert_eq!(before.elapsed(), Duration::from_millis(300));
}

#[tokio::test]
async fn work_whose_client_has_gone_is_finished_and_stored() {
    let shop = held(layer());
    let first = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    shop.go.notify_one();
    let retry = Answer::of(shop.app.clone().oneshot(pay("\"a\"", "x")).await.unwrap()).await;
    assert_eq!((retry.body.as_str(), retry.replayed()), ("effect 1", true));
    assert_eq!(shop.done.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_time_ran_out_does_not_overwrite_its_successor() {
    let shop = held(layer().lock(Duration::from_secs(3)).wait(Duration::from_secs(10)));
    let slow = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    // Waits for the first, takes over when its time is over, and is the first to end.
    let next = tokio::spawn(shop.app.clone().oneshot(pay("\"a\"", "x")));
    shop.begun.notified().await;
    shop.go.notify_waiters();
    let slow = Answer::of(slow.await.unwrap().unwrap()).await;
    let next = Answer::of(next.await.unwrap().unwrap()).await;
    // Both worked, as is said of a lock that is too short; but they say the same, and so does every replay.
    assert_eq!(shop.done.load(Ordering::SeqCst), 2);
    let again = Answer::of(shop.app.clone().oneshot(pay("\"a\"", "x")).await.unwrap()).await;
    assert!(again.replayed());
    assert_eq!(slow.body, again.body);
    assert_eq!(next.body, again.body);
}

#[tokio::test]
async fn a_panic_and_an_error_set_the_key_free() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let handler = move || async move {
        assert!(counter.fetch_add(1, Ordering::SeqCst) > 0, "the first one breaks");
        "done"
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer());
    let broken = tokio::spawn(app.clone().oneshot(pay("\"a\"", "x"))).await;
    assert!(broken.unwrap_err().is_panic());
    let retry = Answer::of(app.oneshot(pay("\"a\"", "x")).await.unwrap()).await;
    assert_eq!((retry.status.as_u16(), retry.replayed()), (200, false));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_forgotten_after_its_time_and_swept() {
    let store = MemoryStore::new();
    let shop = Shop::simple(IdempotencyLayer::new(store.clone()).sweep_every(None));
    shop.ask(pay("\"a\"", "x")).await;
    tokio::time::advance(Duration::from_secs(24 * 3600 - 1)).await;
    assert!(shop.ask(pay("\"a\"", "x")).await.replayed());
    assert_eq!(store.sweep(10).await.unwrap(), 0);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(!shop.ask(pay("\"a\"", "x")).await.replayed());
    assert_eq!(shop.done(), 2);
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    assert_eq!(store.sweep(10).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_layer_sweeps_by_itself() {
    let store = MemoryStore::with_room(1, 1_000);
    let layer = IdempotencyLayer::new(store.clone()).keep(Duration::from_secs(10));
    let shop = Shop::simple(layer);
    shop.ask(pay("\"a\"", "x")).await;
    crate::clock::sleep(Duration::from_secs(120)).await;
    assert_eq!(store.sweep(10).await.unwrap(), 0, "nothing is left to sweep");
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_and_keeps_the_old() {
    // One caller may use half of it.
    let shop = Shop::simple(IdempotencyLayer::new(MemoryStore::with_room(4, 40_000)));
    shop.ask(pay("\"a\"", "x")).await;
    shop.ask(pay("\"b\"", "x")).await;
    let refused = shop.ask(pay("\"c\"", "x")).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(
        refused.body.contains("it is full; nothing was done"),
        "{}",
        refused.body
    );
    assert!(shop.ask(pay("\"a\"", "x")).await.replayed());
    assert_eq!(shop.done(), 2);
}

/// A store that never answers, as a paused server would.
#[derive(Debug)]
struct Silent;

impl IdempotencyStore for Silent {
    fn backend(&self) -> Backend {
        Backend::Memory
    }
    fn claim(&self, _: retryguard_store::idempotency::Asked) -> StoreFuture<'_, Standing> {
        Box::pin(std::future::pending())
    }
    fn complete<'a>(
        &'a self,
        _: retryguard_store::idempotency::Held,
        _: &'a retryguard_store::idempotency::StoredResponse,
        _: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(std::future::pending())
    }
    fn release(&self, _: retryguard_store::idempotency::Held) -> StoreFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn sweep(&self, _: u32) -> StoreFuture<'_, u64> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_refuses_or_lets_pass_as_chosen_and_in_time() {
    let shop = Shop::simple(IdempotencyLayer::new(Silent).store_timeout(Duration::from_secs(1)));
    let before = crate::clock::now();
    assert_eq!(shop.ask(pay("\"a\"", "x")).await.status, 503);
    assert_eq!(before.elapsed(), Duration::from_secs(1));
    assert_eq!(shop.done(), 0);

    let mut hurried = pay("\"a\"", "x");
    let headers = hurried.headers_mut();
    headers.insert("retryguard-deadline-ms", "200".parse().unwrap());
    let before = crate::clock::now();
    assert_eq!(shop.ask(hurried).await.status, 504);
    assert_eq!(before.elapsed(), Duration::from_millis(200));

    let open = IdempotencyLayer::new(Silent).on_store_failure(OnStoreFailure::Proceed);
    let shop = Shop::simple(open);
    assert_eq!(shop.ask(pay("\"a\"", "x")).await.status, 200);
    assert_eq!(shop.done(), 1);
}

/// A store that loses its connection after each effect, for a while.
#[derive(Debug)]
struct LosesRecords {
    inner: MemoryStore,
    /// How many records are lost.
    left: AtomicUsize,
}

impl IdempotencyStore for LosesRecords {
    fn backend(&self) -> Backend {
        Backend::Memory
    }
    fn claim(&self, asked: retryguard_store::idempotency::Asked) -> StoreFuture<'_, Standing> {
        self.inner.claim(asked)
    }
    fn complete<'a>(
        &'a self,
        held: retryguard_store::idempotency::Held,
        response: &'a retryguard_store::idempotency::StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        let fewer = |left: usize| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
            .is_ok()
        {
            let cause = std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
            let backend = Backend::Memory;
            return Box::pin(async move { Err(StoreError::Unreachable { backend, cause }) });
        }
        self.inner.complete(held, response, keep)
    }
    fn release(&self, held: retryguard_store::idempotency::Held) -> StoreFuture<'_, ()> {
        self.inner.release(held)
    }
    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        self.inner.sweep(limit)
    }
}

/// The effect is done and its client is notified; the record is tried again for as long as the lock holds.
#[tokio::test(start_paused = true)]
async fn a_record_that_was_lost_is_written_later() {
    let store = |left: usize| LosesRecords {
        inner: MemoryStore::new(),
        left: AtomicUsize::new(left),
    };
    let shop = Shop::simple(IdempotencyLayer::new(store(3)));
    let first = shop.ask(pay("\"a\"", "x")).await;
    assert_eq!((first.status.as_u16(), first.replayed()), (200, false));
    // The duplicate waits meanwhile.
    assert!(shop.ask(pay("\"a\"", "x")).await.replayed());
    assert_eq!(shop.done(), 1);

    // Lost for longer than the lock: as promised, no more than that.
    let shop = Shop::simple(IdempotencyLayer::new(store(usize::MAX)));
    assert_eq!(shop.ask(pay("\"a\"", "x")).await.status, 200);
    assert_eq!(shop.ask(pay("\"a\"", "x")).await.status, 409);
    crate::clock::sleep(Duration::from_secs(31)).await;
    assert_eq!(shop.ask(pay("\"a\"", "x")).await.status, 200);
    assert_eq!(shop.done(), 2);
}

#[tokio::test]
async fn the_handler_gets_its_claim() {
    let handler = |claim: Option<Extension<Claim>>| async move {
        claim.map_or_else(|| "none".to_owned(), |Extension(claim)| claim.id().to_string())
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer());
    let with = Answer::of(app.clone().oneshot(pay("\"a\"", "x")).await.unwrap()).await;
    assert_eq!(with.body.len(), 64);
    let without = request("POST", "/pay", None, "x");
    let without = Answer::of(app.oneshot(without).await.unwrap()).await;
    assert_eq!(without.body, "none");
}

#[test]
fn errors_say_what_to_do() {
    let error = StoreError::OtherDatabase {
        claim: Backend::Redis,
        transaction: Backend::Postgres,
    };
    assert!(error.to_string().contains("they must be one database"));
}
