//! What acted: the parts of a policy that kept load away from a service, when, and how often.
//!
//! Everything is read from counters of the clients and the servers. A part that was never counted is not named.

use retryguard::Refusal;
use serde::Serialize;

use super::frame::RateBaseline;

/// A part of a policy that keeps load away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Servers refuse requests that they cannot do in time.
    Shedding,
    /// Clients obey Retry-After, and do not retry what the server asks them not to retry.
    Gate,
    /// Calls queue at the client because the limit on concurrency is reached.
    Limit,
    /// Calls are refused at the client because the limit on concurrency is reached and too many wait.
    Full,
    /// Calls wait at the client until a target that is down has recovered.
    Recovery,
    /// Calls are refused at the client because the breaker is open.
    Breaker,
    /// The guard suspends retries.
    Guard,
    /// The budget for retries is used up.
    Budget,
    /// The throttle refuses calls at the client.
    Throttle,
    /// A retry could not have ended before the deadline.
    Deadline,
    /// A failure was retried by the layer below, so the layer above does not retry it.
    OneLayer,
    /// Workers skip requests whose callers have left.
    Expired,
}

/// How one part acted in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Acted {
    /// Which part.
    pub part: Part,
    /// Its name in a row of the time line.
    pub name: &'static str,
    /// How often it acted. For calls that wait: the most that waited at one moment.
    pub count: u64,
    /// When, in seconds since the start of the run: from and until.
    pub spans: Vec<(f64, f64)>,
}

impl Part {
    /// Every part, in the order of the time line.
    pub const ALL: [Self; 12] = [
        Self::Limit,
        Self::Full,
        Self::Recovery,
        Self::Breaker,
        Self::Guard,
        Self::Budget,
        Self::Throttle,
        Self::Gate,
        Self::Deadline,
        Self::OneLayer,
        Self::Shedding,
        Self::Expired,
    ];

    /// The name in a row of the time line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shedding => "shedding",
            Self::Gate => "Retry-After obeyed",
            Self::Limit => "concurrency limit",
            Self::Full => "limit refuses",
            Self::Recovery => "waiting for recovery",
            Self::Breaker => "breaker",
            Self::Guard => "retries suspended",
            Self::Budget => "retry budget",
            Self::Throttle => "throttle",
            Self::Deadline => "deadline",
            Self::OneLayer => "one layer retries",
            Self::Expired => "expired work skipped",
        }
    }

    /// What it did, as a clause of a sentence.
    #[must_use]
    pub fn clause(self, count: u64) -> String {
        match self {
            Self::Shedding => format!("servers refused {count} requests that they could not do in time"),
            Self::Gate => format!("clients left out {count} attempts because the server asked them to"),
            Self::Limit => format!("the concurrency limit kept up to {count} calls back at the client"),
            Self::Full => format!("the concurrency limit refused {count} calls at the client"),
            Self::Recovery => format!("up to {count} calls waited at the client until the target was up"),
            Self::Breaker => format!("the breaker refused {count} calls at the client"),
            Self::Guard => format!("the guard suspended {count} retries"),
            Self::Budget => format!("the retry budget left out {count} retries"),
            Self::Throttle => format!("the throttle refused {count} calls at the client"),
            Self::Deadline => format!("{count} retries that could not end in time were left out"),
            Self::OneLayer => format!("{count} failures were retried by one layer only"),
            Self::Expired => format!("workers skipped {count} requests whose callers had left"),
        }
    }

    /// What it has done so far: a sum, or for calls that wait the number at this moment.
    fn read(self, seen: &RateBaseline) -> Read {
        let edges = &seen.snapshot.edges;
        let refused = |wanted: &[Refusal]| {
            let of_edge = |refusals: &Vec<u64>| -> u64 {
                wanted
                    .iter()
                    .filter_map(|refusal| refusals.get(refusal.index()))
                    .sum()
            };
            Read::Sum(edges.iter().map(|edge| of_edge(&edge.refusals)).sum())
        };
        let waiting = |down: bool| {
            edges
                .iter()
                .filter(|edge| (edge.has_breaker && edge.breaker != "closed") == down)
                .map(|edge| edge.waiting as u64)
                .sum()
        };
        let services = &seen.snapshot.services;
        match self {
            Self::Shedding => Read::Sum(services.iter().map(|service| service.shed).sum()),
            Self::Expired => Read::Sum(services.iter().map(|service| service.too_late).sum()),
            Self::Limit => Read::Now(waiting(false)),
            Self::Full => refused(&[Refusal::BulkheadFull, Refusal::BulkheadTimeout]),
            Self::Recovery => Read::Now(waiting(true)),
            Self::Gate => refused(&[Refusal::RetryAfter, Refusal::TargetForbids]),
            Self::Breaker => refused(&[Refusal::BreakerOpen, Refusal::ProbesBusy]),
            Self::Guard => refused(&[Refusal::Guard]),
            Self::Budget => refused(&[Refusal::Budget]),
            Self::Throttle => refused(&[Refusal::Throttled]),
            Self::Deadline => refused(&[Refusal::Deadline]),
            Self::OneLayer => refused(&[Refusal::RetriedBelow]),
        }
    }
}

enum Read {
    Sum(u64),
    Now(u64),
}

/// Adds what happened between two looks.
pub(super) fn note(all: &mut Vec<Acted>, before: &RateBaseline, now: &RateBaseline) {
    for part in Part::ALL {
        let (count, sum) = match (part.read(before), part.read(now)) {
            (Read::Sum(old), Read::Sum(new)) => (new.saturating_sub(old), true),
            (_, Read::Now(new) | Read::Sum(new)) => (new, false),
        };
        if count == 0 {
            continue;
        }
        let place = all
            .iter()
            .position(|acted| acted.part == part)
            .unwrap_or_else(|| {
                all.push(Acted {
                    part,
                    name: part.name(),
                    count: 0,
                    spans: Vec::new(),
                });
                all.len() - 1
            });
        let acted = &mut all[place];
        acted.count = if sum {
            acted.count + count
        } else {
            acted.count.max(count)
        };
        match acted.spans.last_mut() {
            Some((_, until)) if *until >= before.at => *until = now.at,
            _ => acted.spans.push((before.at, now.at)),
        }
    }
    all.sort_by_key(|acted| Part::ALL.iter().position(|part| *part == acted.part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Name,
        load::Live,
        system::{EdgeView, Snapshot},
    };

    fn seen(at: f64, breaker: &'static str, waiting: usize, budget: u64) -> RateBaseline {
        let mut refusals = vec![0; Refusal::ALL.len()];
        refusals[Refusal::Budget.index()] = budget;
        RateBaseline {
            at,
            live: Live::default(),
            attempts: 0,
            snapshot: Snapshot {
                services: Vec::new(),
                edges: vec![EdgeView {
                    from: Name::Orders,
                    to: Name::Payments,
                    calls: 0,
                    attempts: 0,
                    retries: 0,
                    failures: 0,
                    refusals,
                    waiting,
                    breaker,
                    guard: "allowed",
                    guard_share: 1.0,
                    gain: None,
                    has_breaker: true,
                    has_guard: true,
                }],
                faults: Vec::new(),
            },
        }
    }

    /// Calls that wait while the breaker is closed wait for a place; while it is not, for the recovery.
    #[test]
    fn parts_are_told_apart_and_spans_grow_together() {
        let looks = [
            seen(0.0, "closed", 0, 0),
            seen(0.25, "closed", 3, 2),
            seen(0.5, "closed", 1, 5),
            seen(0.75, "open", 9, 5),
            seen(1.0, "closed", 0, 6),
        ];
        let mut all = Vec::new();
        for pair in looks.windows(2) {
            note(&mut all, &pair[0], &pair[1]);
        }
        let acted = |part| {
            let acted = all.iter().find(|acted| acted.part == part).unwrap();
            (acted.count, acted.spans.clone())
        };
        assert_eq!(acted(Part::Limit), (3, vec![(0.0, 0.5)]));
        assert_eq!(acted(Part::Recovery), (9, vec![(0.5, 0.75)]));
        assert_eq!(acted(Part::Budget), (6, vec![(0.0, 0.5), (0.75, 1.0)]));
        assert_eq!(all.len(), 3, "what never acted is not named: {all:?}");
    }
}
