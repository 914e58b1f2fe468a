//! A service of limited capacity: so many requests at once, each for so long, and a queue before them; what does not
//! fit is turned away at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::StatusCode;
use tokio::sync::Semaphore;

/// How many requests are served at once.
pub(super) const PLACES: usize = 8;

/// What has arrived, counted by the service itself.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) attempts: AtomicU64,
    pub(super) served: AtomicU64,
}

pub(super) struct Limited {
    pub(super) port: u16,
    pub(super) counts: Arc<Counts>,
    pub(super) fault: Arc<FaultDial>,
}

/// What is wrong with the service, besides its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    None,
    /// This share of requests is answered with 503 at once, whatever the load is.
    Random(f64),
    /// Every request is answered with 503.
    Down,
}

/// Sets the fault while the service runs.
#[derive(Debug)]
pub(super) struct FaultDial {
    /// The share of requests that fail, as bits.
    share: AtomicU64,
    chance: Mutex<fastrand::Rng>,
}

impl Default for FaultDial {
    fn default() -> Self {
        Self {
            share: AtomicU64::new(0),
            chance: Mutex::new(fastrand::Rng::with_seed(1)),
        }
    }
}

impl FaultDial {
    pub(super) fn set(&self, fault: Fault) {
        let share = match fault {
            Fault::None => 0.0,
            Fault::Random(share) => share,
            Fault::Down => 1.0,
        };
        self.share.store(f64::to_bits(share), Ordering::Relaxed);
    }

    fn strikes(&self) -> bool {
        let drawn = self.chance.lock().unwrap().f64();
        drawn < f64::from_bits(self.share.load(Ordering::Relaxed))
    }
}

struct Shop {
    places: Semaphore,
    room: usize,
    inside: AtomicUsize,
    takes: Duration,
    counts: Arc<Counts>,
    fault: Arc<FaultDial>,
}

impl Limited {
    /// Serves `capacity` requests a second and no more; `queue` more of them may wait.
    pub(super) async fn start(capacity: f64, queue: usize) -> Self {
        let (counts, fault) = (Arc::<Counts>::default(), Arc::<FaultDial>::default());
        let shop = Arc::new(Shop {
            places: Semaphore::new(PLACES),
            room: PLACES + queue,
            inside: AtomicUsize::new(0),
            takes: Duration::from_secs_f64(PLACES as f64 / capacity),
            counts: Arc::clone(&counts),
            fault: Arc::clone(&fault),
        });
        let app = Router::new().fallback(serve).with_state(shop);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, counts, fault }
    }
}

async fn serve(State(shop): State<Arc<Shop>>) -> StatusCode {
    shop.counts.attempts.fetch_add(1, Ordering::Relaxed);
    if shop.fault.strikes() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let enters = |inside| (inside < shop.room).then_some(inside + 1);
    if shop
        .inside
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enters)
        .is_err()
    {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    // Given back also when the caller hangs up.
    let _inside = Inside(&shop.inside);
    let _place = shop.places.acquire().await;
    retryguard_controller::clock::sleep(shop.takes).await;
    shop.counts.served.fetch_add(1, Ordering::Relaxed);
    StatusCode::OK
}

struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
