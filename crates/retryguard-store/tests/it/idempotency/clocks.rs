//! A request without time left, and a clock that is set back, on every backend.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::post};
use http::Request;
use retryguard_store::idempotency::{
    Asked, Fingerprint, IdempotencyLayer, IdempotencyStore, KeyId, OnStoreFailure, Standing,
};
use tower::ServiceExt as _;

use super::backends::{self, Place};
use crate::clock;

const HOUR: Duration = Duration::from_secs(3600);

/// The answer of a fast store used to win against a deadline of zero, and the request was charged.
async fn nothing_is_done_without_time(store: Arc<dyn IdempotencyStore>) {
    for failure in [OnStoreFailure::Refuse, OnStoreFailure::Proceed] {
        let done = Arc::new(AtomicUsize::new(0));
        let counter = done.clone();
        let work = move || async move {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        let layer = IdempotencyLayer::shared(store.clone())
            .namespace(format!("{failure:?}"))
            .on_store_failure(failure);
        let app = Router::new().route("/pay", post(work)).layer(layer);
        let ask = |number: usize, left: Option<&str>| {
            let mut request =
                Request::post("/pay").header("idempotency-key", format!("\"deadline {number}\""));
            if let Some(left) = left {
                request = request.header("retryguard-deadline-ms", left);
            }
            app.clone().oneshot(request.body(Body::empty()).unwrap())
        };
        for number in 0..100 {
            assert_eq!(ask(number, Some("0")).await.unwrap().status(), 504, "{number}");
        }
        assert_eq!(done.load(Ordering::SeqCst), 0, "nothing may be done");
        // And nothing is left behind that would hold the key.
        assert_eq!(ask(0, None).await.unwrap().status(), 200);
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

/// What the backend stores looks an hour newer than its clock, as after that clock was set back by an hour.
async fn set_back(place: &Place) {
    let Some(address) = &place.address else { return };
    if address.starts_with("redis:") {
        let client = redis::Client::open(address.as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg("retryguard:idempotency:*")
            .query_async(&mut connection)
            .await
            .unwrap();
        for key in keys {
            let mut shift = redis::cmd("HINCRBY");
            shift.arg(key).arg("u").arg(3_600_000_000_i64);
            let _: i64 = shift.query_async(&mut connection).await.unwrap();
        }
    } else if address.starts_with("postgres:") {
        let pool = sqlx::PgPool::connect(address).await.unwrap();
        sqlx::raw_sql(
            "UPDATE retryguard_idempotency
             SET locked_until = locked_until + interval '1 hour', expires_at = expires_at + interval '1 hour'",
        )
        .execute(&pool)
        .await
        .unwrap();
    } else {
        let pool = super::payments::sqlite_pool(address).await;
        sqlx::raw_sql(
            "UPDATE retryguard_idempotency
             SET locked_until = locked_until + 3600000000, expires_at = expires_at + 3600000000",
        )
        .execute(&pool)
        .await
        .unwrap();
    }
}

/// A crashed server's key used to be blocked for as long as the clock was set back.
async fn a_crashed_holder_blocks_for_one_lock(place: &Place) {
    const LOCK: Duration = Duration::from_millis(200);
    let asked = Asked {
        id: KeyId::of(&[b"set back"]),
        fingerprint: Fingerprint::of(&[b"x"]),
        lock: LOCK,
        keep: HOUR,
    };
    let Standing::Yours(crashed) = place.store.claim(asked).await.unwrap() else {
        panic!("the key is new");
    };
    set_back(place).await;
    let mut waits = 0;
    let next = loop {
        match place.store.claim(asked).await.unwrap() {
            Standing::Yours(held) => break held,
            Standing::Busy(left) => {
                assert!(
                    left <= LOCK,
                    "a wait is never longer than the lock, and was {left:?}"
                );
                waits += 1;
                // Enough for the slowest machine: each wait is at most one lock.
                assert!(waits < 50, "the key stays blocked");
                clock::sleep(left.max(Duration::from_millis(1))).await;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(waits > 0, "the lock counts still");
    assert!(next.token > crashed.token);
    // A released key is free by any clock.
    place.store.release(next).await.unwrap();
    set_back(place).await;
    let again = place.store.claim(asked).await.unwrap();
    assert!(matches!(again, Standing::Yours(_)), "{again:?}");
}

async fn holds(place: Place) {
    nothing_is_done_without_time(place.store.clone()).await;
    a_crashed_holder_blocks_for_one_lock(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    nothing_is_done_without_time(backends::memory().store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    holds(backends::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let place = backends::redis().await;
    holds(place).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    holds(place).await;
}
