//! What is shown: the state of all arms at one moment.

use serde::Serialize;

use super::acted::{self, Acted};
use crate::{Name, load::Live, system::Snapshot};

/// What all arms look like at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Frame {
    /// The arms so far: the one under way last.
    pub arms: Vec<Arm>,
    /// The titles of all arms, also of those to come.
    pub titles: Vec<String>,
    /// What breaks, in words.
    pub fault: String,
    /// Seconds of one arm, and when its fault begins and ends.
    pub length: f64,
    /// See `length`.
    pub fault_from: f64,
    /// See `length`.
    pub fault_until: f64,
    /// Orders a second that are offered.
    pub offered: f64,
    /// Payments a second that can be made.
    pub capacity: f64,
    /// The seed of load and faults.
    pub seed: u64,
    /// Whether all arms have run.
    pub over: bool,
    /// Whether an arm could not be run: there is nothing more to show.
    #[serde(skip)]
    pub failed: bool,
    /// What saved the orders, once all arms have run.
    pub verdict: Option<String>,
}

/// One of the runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Arm {
    /// What protects it.
    pub title: String,
    /// The digest of its policy.
    pub digest: String,
    /// What is going on.
    pub phase: Phase,
    /// The points of the time line so far, one for each frame.
    pub points: Vec<Point>,
    /// The edges at present.
    pub edges: Vec<EdgeFrame>,
    /// Requests that wait at payments, and places for them.
    pub waiting: usize,
    /// See `waiting`.
    pub queue: usize,
    /// The most requests that waited at payments at one moment.
    pub most_waiting: usize,
    /// Payments' workers that are there.
    pub workers: usize,
    /// The sums of the users' orders.
    pub orders: Live,
    /// Attempts that arrived at payments.
    pub arrived: u64,
    /// Charges beyond the first of an order, once the run is over.
    pub duplicates: Option<u64>,
    /// The share of orders paid before, during and after the fault, once the run is over.
    pub paid_before: Option<f64>,
    /// See `paid_before`.
    pub paid_during: Option<f64>,
    /// See `paid_before`.
    pub paid_after: Option<f64>,
    /// The share of orders paid in the last three seconds.
    pub paid_last: Option<f64>,
    /// How many seconds after the end of the fault orders were paid again; none where that did not happen before the end.
    pub recovered: Option<f64>,
    /// What acted, in the order of the time line.
    pub acted: Vec<Acted>,
    /// Attempts at payments per order, over the whole run.
    pub amplification: Option<f64>,
    /// Whether the driver kept its load.
    pub kept: Option<bool>,
}

/// What is going on in an arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// All is well.
    #[default]
    Calm,
    /// Something is broken.
    Broken,
    /// The fault has ended.
    After,
    /// The run is over.
    Done,
}

/// A point of the time line: rates over the last second.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Point {
    /// Seconds since the start of the arm.
    pub at: f64,
    /// Orders placed a second.
    pub calls: f64,
    /// Orders paid a second.
    pub paid: f64,
    /// Attempts that arrive at payments a second.
    pub attempts: f64,
    /// Attempts per order.
    pub amplification: f64,
    /// Requests that wait at payments.
    pub waiting: usize,
    /// The breaker and the guard towards payments: 0 for closed or allowed, 1 for open or suspended, 2 for half-open or limited.
    pub breaker: u8,
    /// See `breaker`.
    pub guard: u8,
}

/// One edge, over the last second.
#[derive(Debug, Clone, Serialize)]
pub struct EdgeFrame {
    /// Who calls.
    pub from: &'static str,
    /// Whom.
    pub to: &'static str,
    /// Calls a second.
    pub calls: f64,
    /// Attempts a second.
    pub attempts: f64,
    /// The share of attempts that fail.
    pub failing: f64,
    /// The state of the breaker, or none where there is no breaker.
    pub breaker: Option<&'static str>,
    /// The state of the guard, or none where there is no guard.
    pub guard: Option<&'static str>,
    /// How many additional successes each additional retry brings, and the standard error of that, where it is measured.
    pub gain: Option<(f64, f64)>,
}

impl Frame {
    /// Whether there will be no other frame: all arms have run, or one could not be run.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over || self.failed
    }
}

/// What was seen at one moment, to take rates from.
#[derive(Clone)]
pub(super) struct RateBaseline {
    pub(super) at: f64,
    pub(super) live: Live,
    pub(super) attempts: u64,
    pub(super) snapshot: Snapshot,
}

impl Arm {
    /// Takes in what is seen now; rates are over the time since `before`, `last` is the look before this one.
    pub(super) fn take(&mut self, before: &RateBaseline, last: &RateBaseline, now: &RateBaseline) {
        acted::note(&mut self.acted, last, now);
        let span = (now.at - before.at).max(1e-3);
        let rate = |later: u64, sooner: u64| later.saturating_sub(sooner) as f64 / span;
        self.edges = vec![EdgeFrame {
            from: "users",
            to: Name::Gateway.as_str(),
            calls: rate(now.live.sent, before.live.sent),
            attempts: rate(now.attempts, before.attempts),
            failing: failing(
                now.live.failed + now.live.lost + now.live.shed,
                before.live.failed + before.live.lost + before.live.shed,
                now.live.sent - now.live.under_way,
                before.live.sent - before.live.under_way,
            ),
            breaker: None,
            guard: None,
            gain: None,
        }];
        for (edge, old) in now.snapshot.edges.iter().zip(&before.snapshot.edges) {
            self.edges.push(EdgeFrame {
                from: edge.from.as_str(),
                to: edge.to.as_str(),
                calls: rate(edge.calls, old.calls),
                attempts: rate(edge.attempts, old.attempts),
                failing: failing(edge.failures, old.failures, edge.attempts, old.attempts),
                breaker: edge.has_breaker.then_some(edge.breaker),
                guard: edge.has_guard.then_some(edge.guard),
                gain: edge.gain,
            });
        }
        self.point(before, now, rate);
    }

    fn point(&mut self, before: &RateBaseline, now: &RateBaseline, rate: impl Fn(u64, u64) -> f64) {
        let payments = |seen: &RateBaseline| {
            seen.snapshot
                .services
                .iter()
                .find(|service| service.name == Name::Payments)
                .cloned()
        };
        let (Some(service), Some(old)) = (payments(now), payments(before)) else {
            return;
        };
        self.orders = now.live;
        self.arrived = service.arrived;
        self.waiting = service.waiting;
        self.most_waiting = self.most_waiting.max(service.waiting);
        self.queue = service.queue;
        self.workers = service.workers.unwrap_or(0);
        let calls = rate(now.live.sent, before.live.sent);
        let attempts = rate(service.arrived, old.arrived);
        let edge = now.snapshot.edges.iter().find(|edge| edge.to == Name::Payments);
        self.points.push(Point {
            at: now.at,
            calls,
            paid: rate(now.live.paid, before.live.paid),
            attempts,
            amplification: if calls > 0.0 { attempts / calls } else { 0.0 },
            waiting: service.waiting,
            breaker: edge.map_or(0, |edge| state(edge.breaker)),
            guard: edge.map_or(0, |edge| state(edge.guard)),
        });
    }
}

fn state(word: &str) -> u8 {
    match word {
        "open" | "suspended" => 1,
        "half-open" | "limited" => 2,
        _ => 0,
    }
}

fn failing(failed: u64, failed_before: u64, all: u64, all_before: u64) -> f64 {
    let all = all.saturating_sub(all_before);
    if all == 0 {
        return 0.0;
    }
    (failed.saturating_sub(failed_before) as f64 / all as f64).min(1.0)
}
