//! What only Redis has: round trips that are counted, clusters, and servers that keep no keys.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::post};
use http::Request;
use retryguard_parts::{Redis, RedisCluster};
use retryguard_store::idempotency::{
    Asked, Fingerprint, IdempotencyLayer, IdempotencyStore, KeyId, RedisStore, Standing,
};
use tower::ServiceExt as _;

use super::conformance;

/// How many commands clients have sent to the server so far, this one included.
async fn commands(connection: &mut redis::aio::MultiplexedConnection) -> i64 {
    let info: String = redis::cmd("INFO")
        .arg("stats")
        .query_async(connection)
        .await
        .unwrap();
    let line = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("total_commands_processed:"));
    line.unwrap().parse().unwrap()
}

/// The commands inside a script are counted too: a claim has three, a replay two.
#[tokio::test]
#[ignore = "needs Redis"]
async fn a_new_key_and_a_replay_are_one_round_trip_each() {
    let server = Redis::start();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut watch = client.get_multiplexed_async_connection().await.unwrap();
    let layer = IdempotencyLayer::new(store).sweep_every(None);
    let app = Router::new().route("/pay", post(async || "paid")).layer(layer);
    let ask = |key: usize| {
        let request = Request::post("/pay")
            .header("idempotency-key", format!("\"{key}\""))
            .body(Body::empty())
            .unwrap();
        app.clone().oneshot(request)
    };
    // The first of each kind also loads its script.
    for _ in 0..2 {
        ask(0).await.unwrap();
    }
    async fn scripts(watch: &mut redis::aio::MultiplexedConnection) -> i64 {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(watch)
            .await
            .unwrap();
        let line = info
            .lines()
            .find_map(|line| line.trim().strip_prefix("cmdstat_evalsha:calls="));
        line.unwrap().split(',').next().unwrap().parse().unwrap()
    }
    let before = (scripts(&mut watch).await, commands(&mut watch).await);
    for key in 1..=10 {
        ask(key).await.unwrap();
    }
    let between = (scripts(&mut watch).await, commands(&mut watch).await);
    for key in 1..=10 {
        let response = ask(key).await.unwrap();
        assert!(response.headers().contains_key("idempotency-replayed"));
    }
    let after = (scripts(&mut watch).await, commands(&mut watch).await);
    assert_eq!(between.0 - before.0, 20, "one to claim and one to complete");
    assert_eq!(after.0 - between.0, 10, "one to replay");
    // Outside of scripts there is nothing but the two questions of this test.
    assert_eq!(after.1 - between.1, 10 * 3 + 2, "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn a_cluster_keeps_keys_as_one_server_does() {
    let cluster = RedisCluster::start();
    let urls = cluster.urls();
    let nodes = urls.iter().map(String::as_str);
    let store: Arc<dyn IdempotencyStore> = Arc::new(RedisStore::connect_cluster(nodes).await.unwrap());
    conformance::conforms(store.clone()).await;
    // Keys of every node.
    for number in 0..100_u32 {
        let asked = Asked {
            id: KeyId::of(&[b"spread", &number.to_be_bytes()]),
            fingerprint: Fingerprint::of(&[b"x"]),
            lock: Duration::from_secs(60),
            keep: Duration::from_secs(60),
        };
        assert!(matches!(store.claim(asked).await.unwrap(), Standing::Yours(_)));
        assert!(matches!(store.claim(asked).await.unwrap(), Standing::Busy(_)));
    }
    // Each node alone would refuse most of them.
    let refused = RedisStore::connect(&urls[0]).await.err().unwrap().to_string();
    assert!(refused.contains("connect_cluster"), "{refused}");
}

#[tokio::test]
#[ignore = "needs Redis"]
async fn a_sentinel_is_refused_with_what_to_do() {
    let sentinel = Redis::start_sentinel();
    let refused = RedisStore::connect(&sentinel.url())
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("the primary"), "{refused}");
}
