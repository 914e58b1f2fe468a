//! What is counted while a system runs: by service and by edge, in this system alone.
//!
//! The library's own metrics go to the process's recorder and add up over all systems of a process. An
//! experiment needs those of one system, counted where things happen: arrivals at the service, attempts on the
//! wire.

mod reading;
mod text;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use retryguard::{Refusal, TargetHandle};

pub use reading::{EdgeReading, Reading, ServiceReading};

use crate::{name::Name, station::Station};

/// The upper bounds of the latency histogram's buckets, in milliseconds.
pub(crate) const BUCKETS: [u64; 14] = [
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 20_000, 30_000, 60_000,
];

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// How many.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one service counts.
#[derive(Debug, Default)]
pub struct ServiceCounts {
    /// Answers by route, method and status.
    answers: Mutex<BTreeMap<(&'static str, String, u16), u64>>,
    buckets: [Counter; BUCKETS.len()],
    duration_micros: Counter,
    /// Requests that arrived, whatever became of them.
    pub arrived: Counter,
    /// Of these, retries and hedges.
    pub again: Counter,
    /// Requests that got an answer.
    pub answered: Counter,
    /// Answers that were not 2xx.
    pub failed: Counter,
    /// Requests that the server layer refused.
    pub shed: Counter,
    /// Requests that were answered from the store.
    pub replayed: Counter,
    /// Requests whose key was in use, or was used for another body.
    pub conflicts: Counter,
    /// Requests that no worker began because their callers had stopped waiting.
    pub too_late: Counter,
}

/// What one edge counts.
#[derive(Default)]
pub struct EdgeCounts {
    /// Calls that were made.
    pub calls: Counter,
    /// Calls that ended well.
    pub succeeded: Counter,
    /// Calls that did not.
    pub failed: Counter,
    /// Attempts that were sent.
    pub attempts: Counter,
    /// Attempts that failed or were given up.
    pub failures: Counter,
    /// Attempts after the first.
    pub retries: Counter,
    /// Calls that the bulkhead turned away.
    pub bulkhead: Counter,
    /// Calls that the breaker turned away.
    pub breaker: Counter,
    /// Calls that failed, by the reason why there was no (other) attempt, in the order of `Refusal::ALL`.
    refusals: [Counter; Refusal::ALL.len()],
    /// How long calls took, in microseconds.
    latency: Mutex<Latencies>,
    /// The target's state.
    handle: Mutex<Option<TargetHandle>>,
}

/// Up to ten minutes, to two digits.
struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000, 2).expect("bounds and precision that the format has"))
    }
}

/// All counts of a system.
#[derive(Default)]
pub struct Counts {
    services: BTreeMap<Name, Arc<ServiceCounts>>,
    edges: BTreeMap<(Name, Name), Arc<EdgeCounts>>,
    stations: Mutex<BTreeMap<Name, Station>>,
    gauge_pending: AtomicU64,
}

impl Counts {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let edges = Name::ALL
            .into_iter()
            .flat_map(|from| from.calls().iter().map(move |to| ((from, *to), Arc::default())));
        Self {
            services: Name::ALL.into_iter().map(|name| (name, Arc::default())).collect(),
            edges: edges.collect(),
            ..Self::default()
        }
    }

    /// Those of a service.
    ///
    /// # Panics
    /// Never: every name has its counts.
    #[must_use]
    pub fn service(&self, name: Name) -> &Arc<ServiceCounts> {
        self.services.get(&name).expect("every name has its counts")
    }

    /// Those of an edge.
    #[must_use]
    pub fn edge(&self, from: Name, to: Name) -> Option<&Arc<EdgeCounts>> {
        self.edges.get(&(from, to))
    }

    /// All edges.
    pub fn edges(&self) -> impl Iterator<Item = (Name, Name, &Arc<EdgeCounts>)> {
        self.edges.iter().map(|((from, to), counts)| (*from, *to, counts))
    }

    /// Lets the station of a service be looked at.
    pub fn watch_station(&self, name: Name, station: Station) {
        self.stations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, station);
    }

    /// The station of a service, where it has one.
    #[must_use]
    pub fn station(&self, name: Name) -> Option<Station> {
        self.stations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
            .cloned()
    }

    /// Notes how many events wait in the outbox.
    pub fn set_pending(&self, pending: u64) {
        self.gauge_pending.store(pending, Ordering::Relaxed);
    }

    /// How many events wait in the outbox.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.gauge_pending.load(Ordering::Relaxed)
    }
}

impl ServiceCounts {
    /// A request was answered.
    pub fn answered(&self, route: &'static str, method: &str, status: u16, took: Duration) {
        self.answered.increment();
        if !(200..300).contains(&status) {
            self.failed.increment();
        }
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if let Some(place) = BUCKETS.iter().position(|bound| millis <= *bound) {
            self.buckets[place].increment();
        }
        self.duration_micros
            .add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        // Methods come from outside: unknown ones share a label.
        let method = match method {
            "GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS" | "PATCH" => method,
            _ => "other",
        };
        *self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry((route, method.to_owned(), status))
            .or_default() += 1;
    }
}

impl EdgeCounts {
    /// A call has ended after this long.
    pub fn took(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        self.latency
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .saturating_record(micros);
    }

    /// A call has failed, and this is why there was no (other) attempt.
    pub fn refused(&self, refusal: Refusal) {
        self.refusals[refusal.index()].increment();
    }

    /// How many calls failed for each reason, in the order of `Refusal::ALL`.
    #[must_use]
    pub fn refusals(&self) -> Vec<u64> {
        self.refusals.iter().map(Counter::get).collect()
    }

    /// Lets the target be looked at.
    pub fn watch(&self, handle: TargetHandle) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    /// The target's handle, once there is a client.
    #[must_use]
    pub fn handle(&self) -> Option<TargetHandle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
