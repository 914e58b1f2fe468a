//! How often a request waits for PostgreSQL, counted on the wire.

use std::time::Duration;

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use http::{Request, Response, StatusCode};
use retryguard_parts::Postgres;
use retryguard_store::{
    StoreError,
    idempotency::{Claim, IdempotencyLayer, PostgresStore},
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tower::ServiceExt as _;

use crate::{clock, proxy::RoundTrips};

async fn pay(State(pool): State<PgPool>, claim: Option<Extension<Claim>>, body: String) -> Response<Body> {
    let paid = async {
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO payments VALUES ($1)")
            .bind(1000)
            .execute(&mut *transaction)
            .await
            .unwrap();
        // So large that it cannot be sent in one message with the commit, where the client says so.
        let receipt = if body == "large" {
            "x".repeat(9 * 1024)
        } else {
            "paid".to_owned()
        };
        match claim {
            Some(Extension(claim)) => claim.commit(transaction, Response::new(receipt)).await,
            None => {
                transaction.commit().await.unwrap();
                Ok(Response::new(Body::from(receipt)))
            }
        }
    };
    match paid.await {
        Ok(response) => response,
        Err(StoreError::ClaimLost) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A pool of one connection that knows its statements, so that every message is that of a request.
struct Wire {
    pool: PgPool,
    trips: RoundTrips,
    server: Postgres,
}

impl Wire {
    async fn new() -> Self {
        let server = Postgres::start();
        let trips = RoundTrips::to(server.port()).await;
        let url = server
            .url()
            .replace(&format!(":{}/", server.port()), &format!(":{}/", trips.port()));
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect(&url)
            .await
            .unwrap();
        sqlx::raw_sql("CREATE TABLE payments (cents INTEGER)")
            .execute(&pool)
            .await
            .unwrap();
        Self { pool, trips, server }
    }

    async fn app(&self, in_transaction: bool) -> Router {
        let store = PostgresStore::with_pool(self.pool.clone()).await.unwrap();
        let layer = IdempotencyLayer::new(store)
            .in_transaction(in_transaction)
            .namespace(in_transaction.to_string())
            .store_timeout(Duration::from_secs(30))
            .sweep_every(None);
        Router::new()
            .route("/pay", post(pay))
            .layer(layer)
            .with_state(self.pool.clone())
    }

    /// The round trips that a request waits for. When it has been answered, sqlx ends what is open on the connection and asks
    /// whether the connection lives, for which no request waits.
    async fn count(&self, app: &Router, key: Option<&str>, body: &'static str) -> (u16, bool, usize) {
        self.is_idle().await;
        self.trips.take();
        let mut request = Request::post("/pay");
        if let Some(key) = key {
            request = request.header("idempotency-key", format!("\"{key}\""));
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotency-replayed");
        self.is_idle().await;
        let sent = self.trips.take();
        // `S` is a sync without a statement, `Q` a statement as text.
        let is_waited_for = |sent: &&Vec<u8>| {
            sent.first() != Some(&b'S') && !(sent[0] == b'Q' && sent[5..].starts_with(b"ROLLBACK\0"))
        };
        let count = sent.iter().filter(is_waited_for).count();
        (response.status().as_u16(), replayed, count)
    }

    /// Waits until the connection is back in the pool.
    async fn is_idle(&self) {
        while self.pool.num_idle() == 0 {
            clock::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn one_more_than_the_effect_alone_and_one_for_a_replay() {
    let wire = Wire::new().await;
    let (together, apart) = (wire.app(true).await, wire.app(false).await);
    // The first of each kind prepares its statements.
    for (app, key) in [
        (&together, None),
        (&together, Some("first")),
        (&apart, Some("first")),
    ] {
        for _ in 0..2 {
            assert_eq!(wire.count(app, key, "small").await.0, 200);
        }
    }
    wire.count(&together, Some("first large"), "large").await;

    let plain = wire.count(&together, None, "small").await;
    assert_eq!(plain, (200, false, 3), "begin, effect, commit");
    let new = wire.count(&together, Some("a"), "small").await;
    assert_eq!(
        new,
        (200, false, 4),
        "look, begin, effect, store and commit at once"
    );
    let again = wire.count(&together, Some("a"), "small").await;
    assert_eq!(again, (200, true, 1), "a replay only looks");
    let large = wire.count(&together, Some("b"), "large").await;
    assert_eq!(large, (200, false, 5), "a large response is stored by itself");
    let steps = wire.count(&apart, Some("a"), "small").await;
    assert_eq!(steps, (200, false, 5), "claim, begin, effect, complete, commit");
    let again = wire.count(&apart, Some("a"), "small").await;
    assert_eq!(again, (200, true, 1));

    let paid: i64 = sqlx::query_scalar("SELECT count(*) FROM payments")
        .fetch_one(&wire.pool)
        .await
        .unwrap();
    assert_eq!(paid, 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1, "each once");
}

/// What `AND CHAIN` leaves is ended as soon as the connection is back in its pool.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn no_transaction_is_left_open() {
    let wire = Wire::new().await;
    let app = wire.app(true).await;
    let observer = PgPool::connect(&wire.server.url()).await.unwrap();
    let open = async || {
        let states = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
        let open: i64 = sqlx::query_scalar(states).fetch_one(&observer).await.unwrap();
        open
    };
    for key in ["a", "b", "c"] {
        assert_eq!(wire.count(&app, Some(key), "small").await.0, 200);
        assert_eq!(open().await, 0);
    }
    let transaction = wire.pool.begin().await.unwrap();
    assert_eq!(open().await, 1, "one would be seen");
    transaction.rollback().await.unwrap();
}
