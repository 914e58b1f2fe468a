//! Faults of the database under load: connections cut, servers killed, a disk that is full, a database that is read-only, a
//! deadlock, a pool that is exhausted, a clock that jumps. Every answer is the effect's or an error, every effect happens
//! once, and the checker of histories decides it.
//!
//! `RETRYGUARD_TEST_FAULTS` is how often each fault is made: twice where it is not set. `RETRYGUARD_TEST_KILLS` is how often
//! the database is killed: as often as each other fault where it is not set.

mod postgres;
mod redis;
mod sqlite;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::State, response::IntoResponse as _};
use fastrand::Rng;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use retryguard_store::{
    StoreError,
    idempotency::{Claim, IdempotencyLayer, IdempotencyStore},
};
use tower::ServiceExt as _;

use super::{kills::pay_once, payments::Payments};
use crate::{
    clock,
    history::{self, Operation, Seen},
    servers,
};

const CLIENTS: usize = 6;
/// Requests that end while a fault lasts, and the longest that they are waited for.
const DURING: usize = 12;
const PATIENCE: Duration = Duration::from_secs(2);

/// How often each fault is made.
fn rounds() -> usize {
    let wanted = std::env::var("RETRYGUARD_TEST_FAULTS").ok();
    wanted.map_or(2, |wanted| wanted.parse().unwrap())
}

/// Every fault that a world has, this often and by turns; then the database is killed until that was done often enough.
fn plan(faults: &'static [Fault]) -> impl Iterator<Item = Fault> {
    let rounds = rounds();
    let more = if faults.contains(&Fault::Kill) {
        servers::kills().unwrap_or(0).saturating_sub(rounds)
    } else {
        0
    };
    let by_turns = std::iter::repeat_n(faults, rounds).flatten().copied();
    by_turns.chain(std::iter::repeat_n(Fault::Kill, more))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    /// Every connection is cut.
    Cut,
    /// The database's process is killed and started again.
    Kill,
    ReadOnly,
    Full,
    /// Two handlers wait for each other.
    Deadlock,
    /// Every connection of the pool is in use elsewhere.
    Exhausted,
    /// The clock is set back, and forward, by an hour.
    ClockBack,
    ClockForward,
}

impl Fault {
    const fn title(self) -> &'static str {
        match self {
            Self::Cut => "network cut",
            Self::Kill => "database killed",
            Self::ReadOnly => "read-only",
            Self::Full => "full disk",
            Self::Deadlock => "deadlock",
            Self::Exhausted => "pool exhausted",
            Self::ClockBack => "clock set back",
            Self::ClockForward => "clock set forward",
        }
    }
}

/// A database whose faults the test makes.
trait World: Send + Sync {
    const FAULTS: &'static [Fault];

    async fn begin(&mut self, fault: Fault);
    async fn end(&mut self, fault: Fault);
    /// How many connections were cut.
    fn cut(&self) -> usize {
        0
    }
    /// The effects of each payer, once everything is well.
    async fn effects(&self) -> HashMap<String, Vec<String>>;
}

/// What all clients have seen.
#[derive(Default)]
struct Tally {
    over: AtomicBool,
    ended: AtomicUsize,
    good: AtomicUsize,
    moment: AtomicU64,
    histories: Mutex<HashMap<String, Vec<Operation>>>,
}

impl Tally {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// Of requests without a known end the earliest can do whatever a later one can, so it stands for all.
    fn note(&self, key: &str, request: &str, began: u64, seen: Seen) {
        let ended = (seen != Seen::Unknown).then(|| self.now());
        let mut all = self.histories.lock().unwrap();
        let history = all.entry(key.to_owned()).or_default();
        if ended.is_none()
            && let Some(known) = history
                .iter_mut()
                .find(|one| one.seen == Seen::Unknown && one.request == request)
        {
            known.began = known.began.min(began);
            return;
        }
        if seen == Seen::Refused && history.len() >= 50 {
            return;
        }
        history.push(Operation {
            request: request.to_owned(),
            began,
            ended,
            seen,
        });
    }

    /// Waits until this many more have ended, or for so long.
    async fn more(&self, counter: &AtomicUsize, count: usize, patience: Duration) -> bool {
        let enough = counter.load(Ordering::SeqCst) + count;
        let end = clock::now() + patience;
        while counter.load(Ordering::SeqCst) < enough {
            if clock::now() >= end {
                return false;
            }
            clock::sleep(Duration::from_millis(2)).await;
        }
        true
    }
}

/// Pays under one key after the other, each until it is acknowledged; neighbours share keys, so that duplicates meet.
async fn client(number: usize, app: Router, tally: Arc<Tally>) {
    let mut rng = Rng::with_seed(number as u64);
    for order in 0.. {
        if tally.over.load(Ordering::SeqCst) {
            return;
        }
        let key = format!("payer {} order {order}", number / 2);
        let request = if rng.u32(..12) == 0 { "other" } else { "usual" };
        for _ in 0..200 {
            let began = tally.now();
            let seen = ask(&app, &key, request).await;
            tally.ended.fetch_add(1, Ordering::SeqCst);
            let again = matches!(seen, Seen::Unknown | Seen::Refused);
            tally.note(&key, request, began, seen);
            if !again {
                tally.good.fetch_add(1, Ordering::SeqCst);
                break;
            }
            clock::sleep(Duration::from_millis(5 + rng.u64(..10))).await;
        }
    }
}

async fn ask(app: &Router, key: &str, request: &str) -> Seen {
    let sent = Request::post("/pay")
        .header("idempotency-key", format!("\"{key}\""))
        .body(Body::from(format!("{key}/{request}")))
        .unwrap();
    let response = app.clone().oneshot(sent).await.unwrap();
    let replayed = response.headers().contains_key("idempotency-replayed");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    match status {
        200 => {
            let effect = body.split_once('#').unwrap().1.to_owned();
            if replayed {
                Seen::Replayed(effect)
            } else {
                Seen::First(effect)
            }
        }
        409 => Seen::Refused,
        422 => Seen::OtherRequest,
        500 | 503 | 504 => Seen::Unknown,
        other => panic!("{other}: {body}"),
    }
}

/// The key is what effects are counted by.
fn payer(body: &str) -> &str {
    body.split_once('/').unwrap().0
}

fn layer(store: Arc<dyn IdempotencyStore>) -> IdempotencyLayer {
    IdempotencyLayer::shared(store)
        .lock(Duration::from_millis(300))
        .wait(Duration::from_millis(300))
        .store_timeout(Duration::from_millis(500))
}

/// An effect in the database of the keys.
async fn pay(
    State(payments): State<Payments>,
    Extension(claim): Extension<Claim>,
    body: String,
) -> Response<Body> {
    let paid = tokio::time::timeout(PATIENCE, pay_once(&payments, &claim, payer(&body))).await;
    match paid {
        Ok(Ok(response)) => response,
        Ok(Err(StoreError::ClaimLost)) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    }
}

async fn survives(what: String, mut world: impl World, app: Router) {
    let tally = Arc::new(Tally::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(number, app.clone(), tally.clone())))
        .collect();
    let mut made: HashMap<Fault, usize> = HashMap::new();
    for fault in plan(world_faults(&world)) {
        let before = tally.more(&tally.good, 5, Duration::from_secs(60)).await;
        assert!(before, "{what}: nothing works before {fault:?}");
        world.begin(fault).await;
        tally.more(&tally.ended, DURING, PATIENCE).await;
        world.end(fault).await;
        *made.entry(fault).or_default() += 1;
    }
    let after = tally.more(&tally.good, 5, Duration::from_secs(60)).await;
    assert!(after, "{what}: it does not recover");
    tally.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    // Work whose caller has gone runs to its end.
    clock::sleep(Duration::from_millis(500)).await;
    let effects = world.effects().await;
    let histories = tally.histories.lock().unwrap();
    history::check_all(&histories, &effects).unwrap();
    let cut = world.cut();
    let mut made: Vec<_> = made
        .iter()
        .map(|(fault, count)| format!("{} {count}×", fault.title()))
        .collect();
    made.sort();
    if cut > 0 {
        made.push(format!("{cut} connections cut"));
    }
    println!(
        "faults\t{what}\t{}; {} requests, {} keys, {} effects, no wrong history",
        made.join(", "),
        tally.ended.load(Ordering::SeqCst),
        histories.len(),
        effects.len(),
    );
}

fn form(database: &str, in_transaction: bool) -> String {
    let form = if in_transaction {
        "one transaction"
    } else {
        "two steps"
    };
    format!("{database}, {form}")
}

fn world_faults<W: World>(_: &W) -> &'static [Fault] {
    W::FAULTS
}
