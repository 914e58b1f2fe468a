//! Effect and record in one transaction, and what is refused.

use std::time::Duration;

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use retryguard_parts::Postgres;
use retryguard_store::{
    Backend, StoreError,
    idempotency::{Claim, IdempotencyLayer, MemoryStore, PostgresStore, SqliteStore},
    migrations,
};
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use super::{backends, payments::Payments};

/// Hands its claim to the test and ends when it is told how.
async fn hand_over(
    State(claims): State<mpsc::Sender<(Claim, tokio::sync::oneshot::Sender<Response<Body>>)>>,
    Extension(claim): Extension<Claim>,
) -> Response<Body> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    claims.send((claim, answer)).await.unwrap();
    answered.await.unwrap()
}

fn request() -> Request<Body> {
    Request::post("/pay")
        .header("idempotency-key", "\"a\"")
        .body(Body::empty())
        .unwrap()
}

fn lost() -> Response<Body> {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// Two handlers work on one key, because the first is slower than its lock: the transaction of one of them fails.
async fn the_late_one_rolls_back(address: &str) {
    let (claims, mut claimed) = mpsc::channel(2);
    let layer = IdempotencyLayer::shared(backends::open(address).await)
        .lock(Duration::from_millis(20))
        .store_timeout(Duration::from_secs(20));
    let app = Router::new()
        .route("/pay", post(hand_over))
        .with_state(claims)
        .layer(layer);
    let payments = Payments::open(address).await;
    let slow = tokio::spawn(app.clone().oneshot(request()));
    let (first, answer_first) = claimed.recv().await.unwrap();
    let next = tokio::spawn(app.clone().oneshot(request()));
    let (second, answer_second) = claimed.recv().await.unwrap();
    assert_eq!(first.id(), second.id());
    assert!(second.token() > first.token());
    // The successor pays; then the late one tries.
    answer_second
        .send(pay(&payments, &second).await.unwrap())
        .unwrap();
    let late = pay(&payments, &first).await;
    assert!(matches!(late, Err(StoreError::ClaimLost)), "{late:?}");
    answer_first.send(lost()).unwrap();
    assert_eq!(next.await.unwrap().unwrap().status(), 200);
    assert_eq!(slow.await.unwrap().unwrap().status(), 503);
    assert_eq!(payments.count().await.get("a client"), Some(&1));
    // And later requests get the one that counts.
    let again = app.oneshot(request()).await.unwrap();
    assert!(again.headers().contains_key("idempotency-replayed"));
}

async fn pay(payments: &Payments, claim: &Claim) -> Result<Response<Body>, StoreError> {
    match payments {
        Payments::Sqlite(pool) => {
            let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
            let payment = sqlx::query("INSERT INTO payments VALUES ('a client', 'x')");
            payment.execute(&mut *transaction).await.unwrap();
            let response = claim
                .complete_in(&mut *transaction, Response::new("paid"))
                .await?;
            transaction.commit().await.unwrap();
            Ok(response)
        }
        Payments::Postgres(pool) => {
            let mut transaction = pool.begin().await.unwrap();
            let payment = sqlx::query("INSERT INTO payments VALUES ('a client', 'x')");
            payment.execute(&mut *transaction).await.unwrap();
            let response = claim
                .complete_in(&mut *transaction, Response::new("paid"))
                .await?;
            transaction.commit().await.unwrap();
            Ok(response)
        }
        Payments::Redis(_) => panic!("Redis has no transactions with effects elsewhere"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = backends::sqlite().await;
    the_late_one_rolls_back(place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    the_late_one_rolls_back(place.address.as_ref().unwrap()).await;
}

/// A claim of a layer on this store.
async fn claim(layer: IdempotencyLayer) -> Claim {
    let (claims, mut claimed) = mpsc::channel(1);
    let app = Router::new()
        .route("/pay", post(hand_over))
        .with_state(claims)
        .layer(layer);
    tokio::spawn(app.oneshot(request()));
    claimed.recv().await.unwrap().0
}

#[tokio::test]
async fn a_transaction_of_another_database_and_a_response_too_large_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("keys.db")).await.unwrap();
    let mut connection = store.pool().acquire().await.unwrap();
    let elsewhere = claim(IdempotencyLayer::new(MemoryStore::new())).await;
    let refused = elsewhere.complete_in::<_, _, Bytes>(&mut *connection, Response::new("paid"));
    assert!(matches!(
        refused.await,
        Err(StoreError::OtherDatabase {
            claim: Backend::Memory,
            transaction: Backend::Sqlite
        })
    ));
    drop(connection);
    let here = claim(IdempotencyLayer::new(store.clone()).response_limit(4)).await;
    let mut connection = store.pool().acquire().await.unwrap();
    let large = here.complete_in::<_, _, Bytes>(&mut *connection, Response::new("12345"));
    let limit = large.await.unwrap_err();
    assert!(
        matches!(
            limit,
            StoreError::TooLarge {
                size: 5,
                limit: 4,
                ..
            }
        ),
        "{limit}"
    );
    let fits = here.complete_in::<_, _, Bytes>(&mut *connection, Response::new("1234"));
    assert_eq!(fits.await.unwrap().body(), "1234");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn migrations_may_run_at_once_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    let opening: Vec<_> = (0..8)
        .map(|_| tokio::spawn(SqliteStore::open(file.clone())))
        .collect();
    for opened in opening {
        let store = opened.await.unwrap().unwrap();
        migrations::sqlite(store.pool()).await.unwrap();
    }
    let server = Postgres::start();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url();
            tokio::spawn(async move { PostgresStore::connect(&url).await })
        })
        .collect();
    for opened in opening {
        let store = opened.await.unwrap().unwrap();
        migrations::postgres(store.pool()).await.unwrap();
    }
}
