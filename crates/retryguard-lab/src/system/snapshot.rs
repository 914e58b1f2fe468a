//! A look at the whole system at one moment.

use retryguard_core::{breaker, guard};
use serde::Serialize;

use super::System;
use crate::{faults::Fault, name::Name};

/// A look at the whole system. All numbers of events are since the start.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    /// The services.
    pub services: Vec<ServiceView>,
    /// The edges between them.
    pub edges: Vec<EdgeView>,
    /// What is broken.
    pub faults: Vec<Fault>,
}

/// A look at one service.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceView {
    /// Which.
    pub name: Name,
    /// Requests that arrived.
    pub arrived: u64,
    /// Of these, retries.
    pub again: u64,
    /// Requests answered.
    pub answered: u64,
    /// Answers that were not successes.
    pub failed: u64,
    /// Requests that the server layer refused.
    pub shed: u64,
    /// Requests that no worker began because their callers had stopped waiting.
    pub too_late: u64,
    /// Workers, working and waiting, where it has a bounded capacity.
    pub workers: Option<usize>,
    /// Requests that are worked on.
    pub working: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Places to wait.
    pub queue: usize,
}

/// A look at one edge.
#[derive(Debug, Clone, Serialize)]
pub struct EdgeView {
    /// Who calls.
    pub from: Name,
    /// Whom.
    pub to: Name,
    /// Calls made.
    pub calls: u64,
    /// Attempts sent.
    pub attempts: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Calls that failed, by the reason why there was no (other) attempt, in the order of `Refusal::ALL`.
    pub refusals: Vec<u64>,
    /// Calls that wait at the client: for a place under its limit, or for the recovery of the target.
    pub waiting: usize,
    /// `closed`, `open` or `half-open`.
    pub breaker: &'static str,
    /// `allowed`, `suspended` or `limited`.
    pub guard: &'static str,
    /// The share of retries that the guard lets through.
    pub guard_share: f64,
    /// How many additional successes each additional retry brings, and the standard error of that, where it is measured.
    pub gain: Option<(f64, f64)>,
    /// Whether its policy has a breaker and a guard at all.
    pub has_breaker: bool,
    /// See `has_breaker`.
    pub has_guard: bool,
}

impl System {
    /// A look at the system.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            services: Name::ALL.iter().map(|name| self.service_view(*name)).collect(),
            edges: self
                .counts
                .edges()
                .map(|(from, to, _)| self.edge_view(from, to))
                .collect(),
            faults: self.faults.active(),
        }
    }

    fn service_view(&self, name: Name) -> ServiceView {
        let counts = self.counts.service(name);
        let load = self.counts.station(name).map(|station| station.load());
        ServiceView {
            name,
            arrived: counts.arrived.get(),
            again: counts.again.get(),
            answered: counts.answered.get(),
            failed: counts.failed.get(),
            shed: counts.shed.get(),
            too_late: counts.too_late.get(),
            workers: load.map(|load| load.capacity.workers),
            working: load.map_or(0, |load| load.working),
            waiting: load.map_or(0, |load| load.waiting),
            queue: load.map_or(0, |load| load.capacity.queue),
        }
    }

    fn edge_view(&self, from: Name, to: Name) -> EdgeView {
        let settings = &self.policy.service(to.as_str()).target;
        let mut view = EdgeView {
            from,
            to,
            calls: 0,
            attempts: 0,
            retries: 0,
            failures: 0,
            refusals: Vec::new(),
            waiting: 0,
            breaker: breaker::State::Closed.as_str(),
            guard: guard::State::On.as_str(),
            guard_share: 1.0,
            gain: None,
            has_breaker: settings.breaker.is_some(),
            has_guard: settings.guard.is_some(),
        };
        if let Some(counts) = self.counts.edge(from, to) {
            view.calls = counts.calls.get();
            view.attempts = counts.attempts.get();
            view.retries = counts.retries.get();
            view.failures = counts.failures.get();
            view.refusals = counts.refusals();
            if let Some(handle) = counts.handle() {
                let status = handle.status();
                view.waiting = status.waiting;
                view.breaker = status.breaker.as_str();
                view.guard = status.guard.as_str();
                view.guard_share = status.guard_share.as_f64();
                view.gain = status.gain.map(|gain| (gain.value, gain.error));
            }
        }
        view
    }
}
