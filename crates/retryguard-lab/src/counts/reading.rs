//! The counts at one moment, in a form that passes between processes.

use std::{collections::BTreeMap, sync::PoisonError};

use retryguard_core::{breaker, guard};
use serde::{Deserialize, Serialize};

use super::Counts;
use crate::name::Name;

/// All counts at one moment. All numbers of events are since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// By service.
    pub services: BTreeMap<Name, ServiceReading>,
    /// By edge.
    pub edges: Vec<EdgeReading>,
}

/// The counts of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReading {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that the server layer refused.
    pub shed: u64,
    /// Requests that were answered from the store.
    pub replayed: u64,
}

/// The counts of an edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeReading {
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
    /// Calls that the bulkhead turned away.
    pub bulkhead: u64,
    /// Calls that the breaker turned away.
    pub breaker: u64,
    /// Whether the breaker is open at this moment.
    pub open: bool,
    /// The share of retries that the guard holds back at this moment.
    pub held_back: f64,
    /// How long calls took that ended, in microseconds as they passed, with how many of each; empty where it was
    /// not asked for.
    pub latency: Vec<(u64, u64)>,
}

impl Reading {
    /// The edge between two services.
    #[must_use]
    pub fn edge(&self, from: Name, to: Name) -> Option<&EdgeReading> {
        self.edges.iter().find(|edge| edge.from == from && edge.to == to)
    }

    /// The counts of a service.
    #[must_use]
    pub fn service(&self, name: Name) -> ServiceReading {
        self.services.get(&name).copied().unwrap_or_default()
    }

    /// The reading of a system from those of its processes: of each, what the service in it counts.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = (Name, Self)>) -> Self {
        let mut whole = Self::default();
        for (name, part) in parts {
            whole.services.insert(name, part.service(name));
            whole
                .edges
                .extend(part.edges.into_iter().filter(|edge| edge.from == name));
        }
        whole
    }
}

impl Counts {
    /// All counts at this moment.
    #[must_use]
    pub fn reading(&self, with_latency: bool) -> Reading {
        let services = self.services.iter().map(|(name, counts)| {
            let reading = ServiceReading {
                arrived: counts.arrived.get(),
                shed: counts.shed.get(),
                replayed: counts.replayed.get(),
            };
            (*name, reading)
        });
        let edges = self.edges().map(|(from, to, counts)| {
            let status = counts.handle().map(|handle| handle.status());
            EdgeReading {
                from,
                to,
                calls: counts.calls.get(),
                attempts: counts.attempts.get(),
                retries: counts.retries.get(),
                bulkhead: counts.bulkhead.get(),
                breaker: counts.breaker.get(),
                open: status
                    .as_ref()
                    .is_some_and(|status| status.breaker == breaker::State::Open),
                held_back: status.as_ref().map_or(0.0, |status| match status.guard {
                    guard::State::On => 0.0,
                    guard::State::Off => 1.0,
                    guard::State::Ramping { .. } => 1.0 - status.guard_share.as_f64(),
                }),
                latency: if with_latency {
                    let latency = counts.latency.lock().unwrap_or_else(PoisonError::into_inner);
                    latency
                        .0
                        .iter_recorded()
                        .map(|value| (value.value_iterated_to(), value.count_at_value()))
                        .collect()
                } else {
                    Vec::new()
                },
            }
        });
        Reading {
            services: services.collect(),
            edges: edges.collect(),
        }
    }
}
