//! Databases whose default isolation level is above read committed. PostgreSQL reports there what it waits for elsewhere: that
//! another transaction has changed a row since the snapshot.

use std::{sync::LazyLock, time::Duration};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use http::{Request, Response, StatusCode};
use retryguard_parts::Postgres;
use retryguard_store::{
    StoreError,
    idempotency::{
        Asked, Claim, Fingerprint, IdempotencyLayer, IdempotencyStore as _, KeyId, PostgresStore, Standing,
    },
};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::sync::Barrier;
use tower::ServiceExt as _;

async fn serializable(server: &Postgres) -> PgPool {
    let options: PgConnectOptions = server.url().parse().unwrap();
    PgPoolOptions::new()
        .max_connections(16)
        .connect_with(options.options([("default_transaction_isolation", "serializable")]))
        .await
        .unwrap()
}

/// The layer refused such duplicates with 503, as if the store were away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn one_of_many_claims_wins() {
    let server = Postgres::start();
    let store = PostgresStore::with_pool(serializable(&server).await)
        .await
        .unwrap();
    for number in 0..100_u8 {
        let asked = Asked {
            id: KeyId([number; 32]),
            fingerprint: Fingerprint([1; 32]),
            lock: Duration::from_secs(30),
            keep: Duration::from_secs(3600),
        };
        let claims: Vec<_> = (0..16)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.claim(asked).await })
            })
            .collect();
        let mut won = 0;
        for claim in claims {
            match claim.await.unwrap() {
                Ok(Standing::Yours(_)) => won += 1,
                Ok(Standing::Busy(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(won, 1);
    }
}

/// Both handlers of one key work at the same moment, in two processes.
static BOTH: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

async fn pay(State(pool): State<PgPool>, Extension(claim): Extension<Claim>, size: String) -> Response<Body> {
    let mut transaction = pool.begin().await.unwrap();
    sqlx::query("INSERT INTO payments VALUES (1000)")
        .execute(&mut *transaction)
        .await
        .unwrap();
    BOTH.wait().await;
    let receipt = "x".repeat(size.parse().unwrap());
    match claim.commit(transaction, Response::new(receipt)).await {
        Ok(response) => response,
        Err(StoreError::ClaimLost) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The response of the first was not replayed where it was too large for one message with the commit: the second was answered
/// with an error.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn the_second_of_two_transactions_is_answered_with_the_first() {
    let server = Postgres::start();
    let pool = serializable(&server).await;
    sqlx::raw_sql("CREATE TABLE payments (cents INTEGER)")
        .execute(&pool)
        .await
        .unwrap();
    let store = PostgresStore::with_pool(pool.clone()).await.unwrap();
    let process = || {
        let layer = IdempotencyLayer::new(store.clone())
            .in_transaction(true)
            .store_timeout(Duration::from_secs(30));
        let router = Router::new().route("/pay", post(pay)).layer(layer);
        router.with_state(pool.clone())
    };
    for size in [10, 20_000] {
        let ask = async |app: Router| {
            let request = Request::post("/pay")
                .header("idempotency-key", format!("\"{size}\""))
                .body(Body::from(size.to_string()))
                .unwrap();
            let response = app.oneshot(request).await.unwrap();
            let replayed = response.headers().contains_key("idempotency-replayed");
            (response.status().as_u16(), replayed)
        };
        let (one, two) = tokio::join!(ask(process()), ask(process()));
        let mut answers = [one, two];
        answers.sort_unstable();
        assert_eq!(answers, [(200, false), (200, true)], "{size}");
    }
    let paid: i64 = sqlx::query_scalar("SELECT count(*) FROM payments")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(paid, 2, "each once");
}
