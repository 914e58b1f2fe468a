//! The numbers of one run. Unless it is said otherwise they are of the time of the fault, and durations are as
//! described: what passed here, divided by the time scale.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Driven, recovery};
use crate::{
    counts::{EdgeReading, Reading},
    database::Effects,
    name::Name,
    scale::TimeScale,
};

/// The numbers of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Orders that were to be sent.
    pub sent: u64,
    /// The share of them that was paid.
    pub success: f64,
    /// The share that was refused at the door.
    pub shed: f64,
    /// The share that was answered with an error.
    pub failed: f64,
    /// The share that got no answer.
    pub lost: f64,
    /// The share that was paid before the fault.
    pub success_before: f64,
    /// The share that was paid after it.
    pub success_after: f64,
    /// Half of the answers came within this time, in milliseconds.
    pub p50_ms: f64,
    /// See `p50_ms`.
    pub p95_ms: f64,
    /// See `p50_ms`.
    pub p99_ms: f64,
    /// The same of orders that were not shed.
    pub admitted_p95_ms: f64,
    /// How long calls of orders to payments took, waiting for a connection included.
    pub payment_p50_ms: f64,
    /// See `payment_p50_ms`.
    pub payment_p95_ms: f64,
    /// Calls that users made, replays included.
    pub calls: u64,
    /// Requests that arrived at the service in focus for each of them.
    pub amplification: f64,
    /// Attempts after the first, of all services.
    pub retries: u64,
    /// Attempts after the first, of users.
    pub user_retries: u64,
    /// The share of the time in which the breaker from orders to the service in focus was open.
    pub breaker_open: f64,
    /// The same from the gateway to orders.
    pub gateway_breaker_open: f64,
    /// The mean share of retries to the service in focus that the guard held back.
    pub guard_off: f64,
    /// From the fault until more than 95 % were paid for ten seconds, in seconds; none where that never came.
    pub recovery_s: Option<f64>,
    /// Calls that bulkheads turned away.
    pub bulkhead_rejections: u64,
    /// Those from orders to the service in focus, as a share of all calls to it.
    pub bulkhead_share: f64,
    /// Requests that any service's server layer refused.
    pub shed_requests: u64,
    /// What the databases held after the whole run.
    pub effects: Effects,
    /// Charges beyond the first of an order, for each order that was charged, over the whole run.
    pub duplicate_rate: f64,
}

impl Figures {
    pub(super) fn of(
        driven: &Driven,
        effects: Effects,
        (from, until): (Duration, Duration),
        scale: TimeScale,
        focus: Name,
    ) -> Self {
        let measured = &driven.measured;
        let orders = measured.between(from, until).fold([0; 5], |sum, slice| {
            let more = [slice.sent, slice.paid, slice.shed, slice.failed, slice.lost];
            std::array::from_fn(|place| sum[place] + more[place])
        });
        let share_of = |place: usize| share(orders[place], orders[0]);
        let look = SampleDelta::at(driven, (from, until));
        let focused = look.change(Name::Orders, focus);
        let payments = look.latency(Name::Orders, Name::Payments);
        let seconds: Vec<(u64, u64)> = measured
            .slices
            .iter()
            .map(|slice| (slice.sent, slice.paid))
            .collect();
        let end = Duration::from_secs(u64::MAX / 4);
        let millis = |histogram: &Histogram<u64>, percent: f64| {
            scale
                .described(Duration::from_micros(histogram.value_at_percentile(percent)))
                .as_secs_f64()
                * 1000.0
        };
        Self {
            sent: orders[0],
            success: share_of(1),
            shed: share_of(2),
            failed: share_of(3),
            lost: share_of(4),
            success_before: measured.success_between(Duration::ZERO, from),
            success_after: measured.success_between(until, end),
            p50_ms: millis(&measured.apart, 50.0),
            p95_ms: millis(&measured.apart, 95.0),
            p99_ms: millis(&measured.apart, 99.0),
            admitted_p95_ms: millis(&measured.apart_admitted, 95.0),
            payment_p50_ms: millis(&payments, 50.0),
            payment_p95_ms: millis(&payments, 95.0),
            calls: look.calls,
            amplification: share(look.arrived(focus), look.calls),
            retries: look.sum(|edge| edge.retries),
            user_retries: look.user_attempts.saturating_sub(look.calls),
            breaker_open: look.mean(Name::Orders, focus, |edge| f64::from(u8::from(edge.open))),
            gateway_breaker_open: look
                .mean(Name::Gateway, Name::Orders, |edge| f64::from(u8::from(edge.open))),
            guard_off: look.mean(Name::Orders, focus, |edge| edge.held_back),
            recovery_s: recovery(&seconds, place(from)),
            bulkhead_rejections: look.sum(|edge| edge.bulkhead),
            bulkhead_share: focused.map_or(0.0, |(calls, turned_away)| share(turned_away, calls)),
            shed_requests: Name::ALL.iter().map(|name| look.shed(*name)).sum(),
            effects,
            duplicate_rate: share(effects.duplicate_charges(), effects.charged_orders),
        }
    }
}

/// What happened between two samples.
struct SampleDelta<'d> {
    all: &'d [super::sampler::Sample],
    first: &'d Reading,
    last: &'d Reading,
    calls: u64,
    user_attempts: u64,
}

impl<'d> SampleDelta<'d> {
    fn at(driven: &'d Driven, (from, until): (Duration, Duration)) -> Self {
        let samples = &driven.samples;
        let last = samples.len() - 1;
        let (from, until) = (place(from).min(last), place(until).min(last));
        let (before, after) = (&samples[from], &samples[until]);
        Self {
            all: &samples[from..until],
            first: &before.reading,
            last: &after.reading,
            calls: after.calls - before.calls,
            user_attempts: after.attempts - before.attempts,
        }
    }

    fn arrived(&self, name: Name) -> u64 {
        self.last
            .service(name)
            .arrived
            .saturating_sub(self.first.service(name).arrived)
    }

    fn shed(&self, name: Name) -> u64 {
        self.last
            .service(name)
            .shed
            .saturating_sub(self.first.service(name).shed)
    }

    fn sum(&self, of: impl Fn(&EdgeReading) -> u64) -> u64 {
        self.last
            .edges
            .iter()
            .map(|edge| {
                let before = self.first.edge(edge.from, edge.to).map_or(0, &of);
                of(edge).saturating_sub(before)
            })
            .sum()
    }

    /// Calls, and those that the bulkhead turned away.
    fn change(&self, from: Name, to: Name) -> Option<(u64, u64)> {
        let (before, after) = (self.first.edge(from, to)?, self.last.edge(from, to)?);
        Some((
            after.calls.saturating_sub(before.calls),
            after.bulkhead.saturating_sub(before.bulkhead),
        ))
    }

    fn mean(&self, from: Name, to: Name, of: impl Fn(&EdgeReading) -> f64) -> f64 {
        let sum: f64 = self
            .all
            .iter()
            .filter_map(|sample| sample.reading.edge(from, to))
            .map(of)
            .sum();
        if self.all.is_empty() {
            0.0
        } else {
            sum / self.all.len() as f64
        }
    }

    /// How long the calls took that ended in between, in microseconds as they passed.
    fn latency(&self, from: Name, to: Name) -> Histogram<u64> {
        let mut histogram =
            Histogram::new_with_bounds(1, 600_000_000, 2).expect("bounds and precision that the format has");
        let before: BTreeMap<u64, u64> = self
            .first
            .edge(from, to)
            .map(|edge| edge.latency.iter().copied().collect())
            .unwrap_or_default();
        for (value, count) in self.last.edge(from, to).map_or(&[][..], |edge| &edge.latency) {
            let more = count.saturating_sub(before.get(value).copied().unwrap_or_default());
            // Within the bounds: it comes from a histogram of the same bounds.
            let _ = histogram.record_n(*value, more);
        }
        histogram
    }
}

fn place(at: Duration) -> usize {
    usize::try_from(at.as_secs()).unwrap_or(usize::MAX)
}

/// Nothing of nothing is none.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
