//! Clients that send every request several times, in any order and at once, and leave in the middle: the checker of
//! histories finds nothing wrong with any backend, and finds every bug that is planted into one.

mod transactions;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, response::IntoResponse as _, routing::post};
use fastrand::Rng;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use retryguard_store::{
    Backend,
    idempotency::{
        Asked, Fingerprint, Held, IdempotencyLayer, IdempotencyStore, Open, Standing, StoreFuture,
        StoredResponse,
    },
};
use tower::ServiceExt as _;

use super::{
    backends::{self, Place},
    payments::new_effect,
};
use crate::{
    clock,
    history::{self, Operation, Seen},
};

const KEYS: usize = 40;
const CLIENTS: usize = 6;

/// A bug, planted between the layer and a real backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A response is acknowledged and not stored.
    ForgetsResponses,
    /// A key that another request holds is given out again.
    IgnoresLocks,
    /// A duplicate is not compared with the first request.
    IgnoresRequests,
    /// A replay has the body of another response.
    MixesResponses,
    /// A key that was completed is given out again.
    RepeatsCompleted,
}

const BUGS: [Bug; 5] = [
    Bug::ForgetsResponses,
    Bug::IgnoresLocks,
    Bug::IgnoresRequests,
    Bug::MixesResponses,
    Bug::RepeatsCompleted,
];

/// A backend with a bug.
#[derive(Debug)]
struct Mutant {
    store: Arc<dyn IdempotencyStore>,
    bug: Bug,
    last: Mutex<Option<StoredResponse>>,
    /// What was said of keys when they were open.
    open: Mutex<HashMap<[u8; 32], Open>>,
}

impl Mutant {
    fn new(store: Arc<dyn IdempotencyStore>, bug: Bug) -> Self {
        Self {
            store,
            bug,
            last: Mutex::default(),
            open: Mutex::default(),
        }
    }

    fn asked(&self, mut asked: Asked) -> Asked {
        if self.bug == Bug::IgnoresRequests {
            asked.fingerprint = Fingerprint::of(&[b"always the same"]);
        }
        asked
    }

    /// The same key given out again: held by a token of its own, or open as it once was.
    fn stolen(&self, asked: Asked) -> Standing {
        let open = self.open.lock().unwrap().get(&asked.id.0).copied();
        open.map_or(
            Standing::Yours(Held {
                id: asked.id,
                token: 1,
            }),
            Standing::Open,
        )
    }

    fn mutated(&self, asked: Asked, standing: Standing) -> Standing {
        if let Standing::Open(open) = standing {
            self.open.lock().unwrap().insert(asked.id.0, open);
        }
        match (self.bug, standing) {
            (Bug::IgnoresLocks, Standing::Busy(_)) | (Bug::RepeatsCompleted, Standing::Done(_)) => {
                self.stolen(asked)
            }
            (Bug::MixesResponses, Standing::Done(own)) => {
                Standing::Done(self.last.lock().unwrap().replace(own.clone()).unwrap_or(own))
            }
            (_, standing) => standing,
        }
    }
}

impl IdempotencyStore for Mutant {
    fn backend(&self) -> Backend {
        self.store.backend()
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        let asked = self.asked(asked);
        Box::pin(async move { Ok(self.mutated(asked, self.store.claim(asked).await?)) })
    }

    fn look(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        let asked = self.asked(asked);
        Box::pin(async move { Ok(self.mutated(asked, self.store.look(asked).await?)) })
    }

    fn store<'a>(
        &'a self,
        open: &'a Open,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            if self.bug == Bug::ForgetsResponses {
                return Ok(true);
            }
            self.store.store(open, response, keep).await
        })
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            if self.bug == Bug::ForgetsResponses {
                self.store.release(held).await?;
                return Ok(true);
            }
            let stored = self.store.complete(held, response, keep).await?;
            // A holder that stole its key does not ask whether it has it.
            Ok(stored || matches!(self.bug, Bug::IgnoresLocks | Bug::RepeatsCompleted))
        })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        self.store.release(held)
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        self.store.sweep(limit)
    }
}

#[derive(Default)]
struct World {
    moment: AtomicU64,
    effects: Mutex<HashMap<String, Vec<String>>>,
    histories: Mutex<HashMap<String, Vec<Operation>>>,
}

/// The effect is counted elsewhere than in the store: in this process.
async fn pay(State(world): State<Arc<World>>, body: String) -> Response<Body> {
    let (key, _) = body.split_once('/').unwrap();
    clock::sleep(Duration::from_millis(clock::below(3))).await;
    if clock::below(5) == 0 {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let effect = new_effect();
    let mut effects = world.effects.lock().unwrap();
    effects.entry(key.to_owned()).or_default().push(effect.clone());
    effect.into_response()
}

/// What clients see of a backend with this bug.
async fn observe(store: Arc<dyn IdempotencyStore>, bug: Bug) -> Result<usize, String> {
    let world = Arc::new(World::default());
    let layer = IdempotencyLayer::new(Mutant::new(store, bug))
        .namespace(format!("{bug:?}"))
        .store_timeout(Duration::from_secs(30));
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer)
        .with_state(world.clone());
    drive(&[app], &world).await;
    let histories = world.histories.lock().unwrap();
    let effects = world.effects.lock().unwrap();
    history::check_all(&histories, &effects)?;
    Ok(histories.values().map(Vec::len).sum())
}

/// All clients at once, each at one of the servers; then every key is asked for once more.
async fn drive(apps: &[Router], world: &Arc<World>) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let app = apps[number % apps.len()].clone();
            tokio::spawn(client(number, app, world.clone()))
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    // Work whose client has left runs to its end.
    clock::sleep(Duration::from_millis(50)).await;
    for key in 0..KEYS {
        ask(&apps[0], world, &format!("key {key}"), "request 0", None).await;
    }
}

/// Sends every key once or twice, in an order of its own; sometimes another request under it, sometimes it leaves.
async fn client(number: usize, app: Router, world: Arc<World>) {
    let mut rng = Rng::with_seed(number as u64);
    let mut keys: Vec<usize> = (0..KEYS).chain(0..KEYS / 2).collect();
    // Neighbours are near in time, so that clients meet.
    for place in 0..keys.len() {
        let other = (place + rng.usize(..4)).min(keys.len() - 1);
        keys.swap(place, other);
    }
    for key in keys {
        let request = if rng.u32(..8) == 0 {
            "request 1"
        } else {
            "request 0"
        };
        let patience = (rng.u32(..6) == 0).then(|| Duration::from_micros(rng.u64(..4_000)));
        ask(&app, &world, &format!("key {key}"), request, patience).await;
    }
}

async fn ask(app: &Router, world: &World, key: &str, request: &str, patience: Option<Duration>) {
    let began = world.moment.fetch_add(1, Ordering::SeqCst);
    let sent = Request::post("/pay")
        .header("idempotency-key", format!("\"{key}\""))
        .body(Body::from(format!("{key}/{request}")))
        .unwrap();
    let answer = app.clone().oneshot(sent);
    let response = match patience {
        Some(patience) => tokio::time::timeout(patience, answer).await.ok(),
        None => Some(answer.await),
    };
    let seen = match response {
        None => Seen::Unknown,
        Some(response) => seen(response.unwrap()).await,
    };
    // A refusal of the handler's own, and one whose client has left, may come before the work has ended.
    let ended = (seen != Seen::Unknown).then(|| world.moment.fetch_add(1, Ordering::SeqCst));
    let operation = Operation {
        request: request.to_owned(),
        began,
        ended,
        seen,
    };
    let mut histories = world.histories.lock().unwrap();
    histories.entry(key.to_owned()).or_default().push(operation);
}

async fn seen(response: Response<Body>) -> Seen {
    let replayed = response.headers().contains_key("idempotency-replayed");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let effect = String::from_utf8_lossy(&body).into_owned();
    match (status, replayed) {
        (200, false) => Seen::First(effect),
        (200, true) => Seen::Replayed(effect),
        (422, _) => Seen::OtherRequest,
        // The handler refuses before its effect, and the layer before the handler.
        (409 | 503, _) => Seen::Refused,
        other => panic!("{other:?}"),
    }
}

/// Nothing is wrong with the backend, and every planted bug is found. A bug needs its moment to show, so it has some
/// tries.
async fn holds(place: &Place) {
    let operations = observe(place.store.clone(), Bug::None).await.unwrap();
    println!("{operations} operations without a fault");
    for bug in BUGS {
        let mut found = None;
        for _ in 0..10 {
            // A key that is still known from the last try is not a new key.
            let fresh = Fresh::of(&place.store);
            if let Err(error) = observe(Arc::new(fresh), bug).await {
                found = Some(error);
                break;
            }
        }
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: {}", found.lines().next().unwrap_or_default());
    }
}

/// The same backend with other keys.
#[derive(Debug)]
struct Fresh {
    store: Arc<dyn IdempotencyStore>,
    salt: u64,
}

impl Fresh {
    fn of(store: &Arc<dyn IdempotencyStore>) -> Self {
        Self {
            store: store.clone(),
            salt: clock::below(u64::MAX),
        }
    }
}

impl IdempotencyStore for Fresh {
    fn backend(&self) -> Backend {
        self.store.backend()
    }

    fn claim(&self, mut asked: Asked) -> StoreFuture<'_, Standing> {
        for (byte, salt) in asked.id.0.iter_mut().zip(self.salt.to_be_bytes()) {
            *byte ^= salt;
        }
        self.store.claim(asked)
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        self.store.complete(held, response, keep)
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        self.store.release(held)
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        self.store.sweep(limit)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    holds(&backends::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    holds(&backends::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let place = backends::redis().await;
    holds(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    holds(&place).await;
}
