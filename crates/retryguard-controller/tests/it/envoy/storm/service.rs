//! A service of limited capacity: so many requests at once, each for so long, and a queue before them; what does not
//! fit is turned away at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
}

struct Shop {
    places: Semaphore,
    room: usize,
    inside: AtomicUsize,
    takes: Duration,
    counts: Arc<Counts>,
}

impl Limited {
    /// Serves `capacity` requests a second and no more; `queue` more of them may wait.
    pub(super) async fn start(capacity: f64, queue: usize) -> Self {
        let counts = Arc::new(Counts::default());
        let shop = Arc::new(Shop {
            places: Semaphore::new(PLACES),
            room: PLACES + queue,
            inside: AtomicUsize::new(0),
            takes: Duration::from_secs_f64(PLACES as f64 / capacity),
            counts: Arc::clone(&counts),
        });
        let app = Router::new().fallback(serve).with_state(shop);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, counts }
    }
}

async fn serve(State(shop): State<Arc<Shop>>) -> StatusCode {
    shop.counts.attempts.fetch_add(1, Ordering::Relaxed);
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
