//! Clients that do not wait for each other: calls arrive by chance, at a given mean rate, whatever became of the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::world::client;

/// A stretch of load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase {
    /// Calls a second.
    pub(crate) rate: f64,
    /// For how long.
    pub(crate) lasts: Duration,
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

/// Calls `url` as the phases say; the same seed calls at the same times. What became of a call counts for the phase in
/// which it was *made*: calls that are tried again end later, and would be missing where phases are cut by the clock.
#[expect(clippy::disallowed_methods, reason = "real load takes real time")]
pub(super) async fn run(url: String, phases: &[Phase], seed: u64, seen: Vec<Arc<Seen>>) {
    let client = client();
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut next = Instant::now();
    let mut end = next;
    let places = Arc::new(tokio::sync::Semaphore::new(MOST));
    for (phase, seen) in phases.iter().zip(&seen) {
        end += phase.lasts;
        while next < end {
            tokio::time::sleep_until(next.into()).await;
            let gap = -(1.0 - chance.f64()).ln() / phase.rate;
            next += Duration::from_secs_f64(gap);
            seen.calls.fetch_add(1, Ordering::Relaxed);
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                seen.failed.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let (request, seen) = (client.get(&url), Arc::clone(seen));
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
    }
    // The last calls of all end too: nobody is left who holds a place.
    let _ = places.acquire_many(u32::try_from(MOST).unwrap_or(u32::MAX)).await;
}
