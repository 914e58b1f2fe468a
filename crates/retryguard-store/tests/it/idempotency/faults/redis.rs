//! Faults of a Redis server, and of the network before it. The effects are elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use http::{Response, StatusCode};
use retryguard_parts::Redis;
use retryguard_store::idempotency::{Claim, RedisStore};

use super::{super::payments::new_effect, Fault, World, layer, payer, survives};
use crate::{clock, proxy::Proxy};

/// Effects elsewhere than in Redis, with the claim's id as their unique key: the request and the name of its effect.
#[derive(Clone, Default)]
struct Elsewhere(Arc<Mutex<HashMap<String, (String, String)>>>);

async fn pay_elsewhere(
    State(elsewhere): State<Elsewhere>,
    Extension(claim): Extension<Claim>,
    body: String,
) -> Response<Body> {
    clock::sleep(Duration::from_millis(clock::below(3))).await;
    let mut all = elsewhere.0.lock().unwrap();
    let known = all.get(&claim.id().to_string()).cloned();
    let again = known.is_some();
    let (request, effect) = known.unwrap_or_else(|| (body.clone(), new_effect()));
    if request != body {
        // The key's record was lost with the store, and its effect was another request's.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    all.insert(claim.id().to_string(), (request, effect.clone()));
    let mut response = Response::new(Body::from(format!("receipt #{effect}")));
    if again {
        // As a service does whose answer to a known key says so.
        response
            .headers_mut()
            .insert("idempotency-replayed", http::HeaderValue::from_static("true"));
    }
    response
}

struct RedisWorld {
    server: Redis,
    proxy: Proxy,
    elsewhere: Elsewhere,
}

impl RedisWorld {
    async fn set(&self, name: &str, value: &str) {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(name).arg(value);
        let _: () = command.query_async(&mut connection).await.unwrap();
    }
}

impl World for RedisWorld {
    const FAULTS: &'static [Fault] = &[Fault::Cut, Fault::Kill, Fault::ReadOnly, Fault::Full];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxy.cut(),
            Fault::Kill => {
                let process = self.server.process();
                tokio::task::block_in_place(|| process.kill());
            }
            // Writes are refused without enough replicas, as by a primary that was cut off from them.
            Fault::ReadOnly => self.set("min-replicas-to-write", "1").await,
            Fault::Full => self.set("maxmemory", "1mb").await,
            other => panic!("{other:?} is not a fault of Redis"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => tokio::task::block_in_place(|| self.server.restart()),
            Fault::ReadOnly => self.set("min-replicas-to-write", "0").await,
            Fault::Full => self.set("maxmemory", "0").await,
            _ => {}
        }
    }

    fn cut(&self) -> usize {
        self.proxy.count()
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        let mut effects: HashMap<String, Vec<String>> = HashMap::new();
        for (request, effect) in self.elsewhere.0.lock().unwrap().values() {
            effects
                .entry(payer(request).to_owned())
                .or_default()
                .push(effect.clone());
        }
        effects
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let server = Redis::start_durable();
    let proxy = Proxy::to(server.port()).await;
    let store = Arc::new(RedisStore::connect(&proxy.through(&server.url())).await.unwrap());
    let elsewhere = Elsewhere::default();
    let app = Router::new()
        .route("/pay", post(pay_elsewhere))
        .layer(layer(store))
        .with_state(elsewhere.clone());
    let world = RedisWorld {
        server,
        proxy,
        elsewhere,
    };
    survives("Redis, effects elsewhere".to_owned(), world, app).await;
}
