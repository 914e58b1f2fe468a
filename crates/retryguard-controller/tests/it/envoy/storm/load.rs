//! Clients that do not wait for each other: calls arrive by chance, at a given mean rate, whatever became of the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::super::world::client;
use super::service::{Fault, FaultDial};

/// A stretch of load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    /// Calls a second.
    pub(super) rate: f64,
    /// For how long.
    pub(super) lasts: Duration,
    /// What is wrong with the service meanwhile.
    pub(super) fault: Fault,
}

/// What became of calls.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) calls: AtomicU64,
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    /// For how long calls were held open, in sum: what a function that waits is billed for.
    pub(super) held_micros: AtomicU64,
}

/// The most calls that may be under way; beyond it a call counts as failed at once.
const MOST: usize = 2_000;

/// Who calls, and what stands for a call that is under way.
#[derive(Clone)]
struct Caller {
    client: reqwest::Client,
    url: String,
    places: Arc<Semaphore>,
}

impl Caller {
    fn new(url: String) -> Self {
        Self {
            client: client(),
            url,
            places: Arc::new(Semaphore::new(MOST)),
        }
    }

    /// Calls, and does not wait for the end.
    #[expect(clippy::disallowed_methods, reason = "real load takes real time")]
    fn call(&self, seen: &Arc<Seen>) {
        seen.calls.fetch_add(1, Ordering::Relaxed);
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            seen.failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (request, seen) = (self.client.get(&self.url), Arc::clone(seen));
        tokio::spawn(async move {
            let begun = Instant::now();
            let well = request
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success());
            let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            seen.held_micros.fetch_add(micros, Ordering::Relaxed);
            let count = if well { &seen.succeeded } else { &seen.failed };
            count.fetch_add(1, Ordering::Relaxed);
            drop(place);
        });
    }

    /// Waits until no call is under way.
    async fn rest(&self) {
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

/// Calls `url` and sets the service's faults as the phases say; the same seed calls at the same times. What became of a call counts for the phase in
/// which it was *made*: calls that are tried again end later, and would be missing where phases are cut by the clock.
#[expect(clippy::disallowed_methods, reason = "real load takes real time")]
pub(super) async fn run(
    url: String,
    phases: &[Phase],
    seed: u64,
    seen: Vec<Arc<Seen>>,
    fault: Arc<FaultDial>,
) {
    let caller = Caller::new(url);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut next = Instant::now();
    let mut end = next;
    for (phase, seen) in phases.iter().zip(&seen) {
        end += phase.lasts;
        fault.set(phase.fault);
        while next < end {
            tokio::time::sleep_until(next.into()).await;
            next += gap(&mut chance, phase.rate);
            caller.call(seen);
        }
    }
    caller.rest().await;
}

/// Load without an end, whose rate is set while it runs: for tests that wait for what comes of it.
pub(super) struct Dial {
    rate: Arc<AtomicU64>,
    pub(super) seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl Dial {
    #[expect(clippy::disallowed_methods, reason = "real load takes real time")]
    pub(super) fn start(url: String, rate: f64) -> Self {
        let rate = Arc::new(AtomicU64::new(rate.to_bits()));
        let seen = Arc::new(Seen::default());
        let (asked, counted) = (Arc::clone(&rate), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let caller = Caller::new(url);
            let mut chance = fastrand::Rng::with_seed(1);
            let mut next = Instant::now();
            loop {
                let rate = f64::from_bits(asked.load(Ordering::Relaxed));
                // By the clock and not by pauses: on a busy machine each pause lasts longer than it should, and the rate would
                // be too low. What could not be called for a second is left out.
                next = (next + gap(&mut chance, rate)).max(Instant::now() - Duration::from_secs(1));
                tokio::time::sleep_until(next.into()).await;
                caller.call(&counted);
            }
        });
        Self { rate, seen, task }
    }

    pub(super) fn set(&self, rate: f64) {
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn gap(chance: &mut fastrand::Rng, rate: f64) -> Duration {
    Duration::from_secs_f64(-(1.0 - chance.f64()).ln() / rate)
}
