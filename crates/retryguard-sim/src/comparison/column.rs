//! The columns of a comparison: one list for the table, the JSON, the CSV and the report.

use crate::engine::{Run, ServiceRun};

/// A number that a run comes to.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its key in JSON and CSV.
    pub key: &'static str,
    /// Its head in tables.
    pub title: &'static str,
    /// How it is shown.
    pub kind: Kind,
    /// Whether it stands in the table on the terminal.
    pub in_table: bool,
    /// The number; `None` where it says nothing.
    pub of: fn(&Run) -> Option<f64>,
}

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count.
    Count,
    /// A ratio with decimals.
    Ratio,
    /// A share in percent.
    Share,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Money.
    Money,
}

/// Every column.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
pub const COLUMNS: &[Column] = &[
    shown("calls", "calls", Kind::Count, |run| Some(run.calls as f64)),
    shown("attempts", "attempts", Kind::Count, |run| {
        Some(run.services[run.focus].attempts as f64)
    }),
    shown("retriesPerCall", "retries/call", Kind::Ratio, |run| {
        Some(run.retries_per_call())
    }),
    shown("amplification", "amplif.", Kind::Ratio, |run| {
        Some(run.amplification())
    }),
    shown("successRate", "success", Kind::Share, |run| {
        Some(run.success_rate())
    }),
    shown("rejectionRate", "rejected", Kind::Share, |run| {
        Some(run.rejection_rate())
    }),
    shown("meanMs", "mean ms", Kind::Millis, |run| {
        run.latency.mean().map(|nanos| nanos / 1e6)
    }),
    hidden("p50Ms", "p50 ms", Kind::Millis, |run| quantile(run, 0.50)),
    shown("p95Ms", "p95 ms", Kind::Millis, |run| quantile(run, 0.95)),
    shown("p99Ms", "p99 ms", Kind::Millis, |run| quantile(run, 0.99)),
    shown("bill", "bill", Kind::Money, |run| Some(run.bill())),
    hidden("goodputPerSecond", "goodput/s", Kind::Ratio, |run| {
        Some(run.goodput())
    }),
    hidden("failureRate", "failed", Kind::Share, |run| {
        Some(if run.calls == 0 {
            0.0
        } else {
            run.failed as f64 / run.calls as f64
        })
    }),
    hidden("unfinished", "unfinished", Kind::Count, |run| {
        Some(run.unfinished as f64)
    }),
    hidden("duplicateRate", "doubled", Kind::Share, |run| {
        Some(run.duplicate_rate())
    }),
    hidden("undelivered", "undelivered", Kind::Count, |run| {
        (run.messages > 0).then(|| (run.messages - run.delivered) as f64)
    }),
    hidden("deliveryP95Ms", "delivery p95 ms", Kind::Millis, |run| {
        run.delivery.quantile(0.95).map(|nanos| nanos as f64 / 1e6)
    }),
    hidden("recoverySeconds", "recovery s", Kind::Seconds, |run| run.recovery),
    hidden("breakerOpen", "breaker open", Kind::Share, |run| {
        Some(run.breaker_open)
    }),
    hidden("guardOff", "guard off", Kind::Share, |run| Some(run.guard_off)),
    hidden("resizes", "resizes", Kind::Ratio, |run| {
        scaled(run, |focus| f64::from(focus.resizes))
    }),
    hidden("increases", "scale-ups", Kind::Ratio, |run| {
        scaled(run, |focus| f64::from(focus.increases))
    }),
    hidden("largestSize", "largest size", Kind::Count, |run| {
        scaled(run, |focus| focus.largest)
    }),
    hidden("lastSize", "last size", Kind::Count, |run| {
        scaled(run, |focus| focus.last)
    }),
    hidden("replicaHours", "replica hours", Kind::Ratio, |run| {
        over_replicas(run, |service| service.size_seconds / 3600.0)
    }),
    hidden("workHours", "work hours", Kind::Ratio, |run| {
        over_replicas(run, |service| service.work_seconds / 3600.0)
    }),
    hidden("successMeanMs", "mean ms of successes", Kind::Millis, |run| {
        (run.successes > 0).then(|| run.success_nanos as f64 / 1e6 / run.successes as f64)
    }),
    hidden("measuredSeconds", "measured s", Kind::Seconds, |run| {
        Some(run.measured)
    }),
];

/// The column of this key.
#[must_use]
pub fn column(key: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.key == key)
}

const fn shown(key: &'static str, title: &'static str, kind: Kind, of: fn(&Run) -> Option<f64>) -> Column {
    Column {
        key,
        title,
        kind,
        in_table: true,
        of,
    }
}

const fn hidden(key: &'static str, title: &'static str, kind: Kind, of: fn(&Run) -> Option<f64>) -> Column {
    Column {
        in_table: false,
        ..shown(key, title, kind, of)
    }
}

/// Something of the focus, where it has an autoscaler.
fn scaled(run: &Run, of: fn(&ServiceRun) -> f64) -> Option<f64> {
    let focus = &run.services[run.focus];
    focus.scales.then(|| of(focus))
}

/// A sum over the services that run replicas, where one of them has an autoscaler.
fn over_replicas(run: &Run, of: fn(&ServiceRun) -> f64) -> Option<f64> {
    let replicated = || run.services.iter().filter(|service| service.has_replicas);
    replicated()
        .any(|service| service.scales)
        .then(|| replicated().map(of).sum())
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a call")]
fn quantile(run: &Run, share: f64) -> Option<f64> {
    run.latency.quantile(share).map(|nanos| nanos as f64 / 1e6)
}
