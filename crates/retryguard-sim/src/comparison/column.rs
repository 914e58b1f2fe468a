//! The columns of a comparison: one list for the table, the JSON, the CSV and the report.

use crate::engine::Run;

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
    hidden("recoverySeconds", "recovery s", Kind::Seconds, |run| run.recovery),
    hidden("breakerOpen", "breaker open", Kind::Share, |run| {
        Some(run.breaker_open)
    }),
    hidden("guardOff", "guard off", Kind::Share, |run| Some(run.guard_off)),
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

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a call")]
fn quantile(run: &Run, share: f64) -> Option<f64> {
    run.latency.quantile(share).map(|nanos| nanos as f64 / 1e6)
}
