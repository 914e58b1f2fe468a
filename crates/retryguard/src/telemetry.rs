//! What operators see: metrics through the `metrics` facade, events through `tracing`.
//!
//! Every name stands in [`METRICS`], from which the reference page is generated; handles are made once per
//! target and kept.

use std::{sync::OnceLock, time::Duration};

use metrics::{Counter, Gauge, Histogram, Label};
use retryguard_core::{Ratio, Refusal, breaker, call::Verdict, endpoints, guard, target::Change};

use crate::protocol::Report;

/// A metric of ours: its name, its kind, its labels and what it says.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: &'static str,
    /// The labels.
    pub labels: &'static str,
    /// What it says and what it is good for.
    pub meaning: &'static str,
}

const CALLS: &str = "retryguard_calls_total";
const ATTEMPTS: &str = "retryguard_attempts_total";
const SUCCESSES: &str = "retryguard_successes_total";
const REFUSALS: &str = "retryguard_refusals_total";
const BREAKER: &str = "retryguard_breaker_state";
const BREAKER_CHANGES: &str = "retryguard_breaker_changes_total";
const GUARD: &str = "retryguard_guard_state";
const GUARD_SHARE: &str = "retryguard_guard_share";
const GUARD_CHANGES: &str = "retryguard_guard_changes_total";
const GAIN: &str = "retryguard_retry_gain";
const GAIN_ERROR: &str = "retryguard_retry_gain_error";
const ENDPOINT: &str = "retryguard_endpoint_out";
const ENDPOINT_CHANGES: &str = "retryguard_endpoint_changes_total";
const BUDGET: &str = "retryguard_budget_balance";
const IN_FLIGHT: &str = "retryguard_in_flight";
const DURATION: &str = "retryguard_call_duration_seconds";
pub(crate) const SHED: &str = "retryguard_shed_total";
pub(crate) const SERVED: &str = "retryguard_served_total";
pub(crate) const SERVING: &str = "retryguard_serving";
pub(crate) const POLICY: &str = "retryguard_policy_info";
pub(crate) const POLICY_REFUSED: &str = "retryguard_policy_refused_total";

/// Every metric that this crate exports.
pub const METRICS: &[Metric] = &[
    Metric {
        name: CALLS,
        kind: "counter",
        labels: "target, result (success, failure, refused, abandoned)",
        meaning: "Calls that ended. The rate of `refused` is load that the target was spared.",
    },
    Metric {
        name: ATTEMPTS,
        kind: "counter",
        labels: "target, attempt (1 to 8, more)",
        meaning: "Attempts sent, by their number within the call. All of them over those numbered 1 is the amplification.",
    },
    Metric {
        name: SUCCESSES,
        kind: "counter",
        labels: "target, attempt (1 to 8, more)",
        meaning: "Calls that succeeded, by the number of the attempt that did. Compared with the attempts of the same number it says whether retries are productive.",
    },
    Metric {
        name: REFUSALS,
        kind: "counter",
        labels: "target, reason",
        meaning: "Failed or refused calls, by why there was no (other) attempt.",
    },
    Metric {
        name: BREAKER,
        kind: "gauge",
        labels: "target",
        meaning: "The breaker: 0 closed, 1 open, 2 half-open.",
    },
    Metric {
        name: BREAKER_CHANGES,
        kind: "counter",
        labels: "target, to",
        meaning: "Changes of the breaker's state.",
    },
    Metric {
        name: GUARD,
        kind: "gauge",
        labels: "target",
        meaning: "What the guard does with retries: 0 allowed, 1 suspended, 2 limited.",
    },
    Metric {
        name: GUARD_SHARE,
        kind: "gauge",
        labels: "target",
        meaning: "The share of retries that the guard lets through, from 0 to 1.",
    },
    Metric {
        name: GUARD_CHANGES,
        kind: "counter",
        labels: "target, to (allowed, suspended, limited)",
        meaning: "Changes of the guard's state.",
    },
    Metric {
        name: GAIN,
        kind: "gauge",
        labels: "target",
        meaning: "How many additional successes each additional retry brings: close to 1 for random faults, 0 or less under overload. Set when a call was retried or failed. Only where the guard measures it (`mode: response`).",
    },
    Metric {
        name: GAIN_ERROR,
        kind: "gauge",
        labels: "target",
        meaning: "The standard error of `retryguard_retry_gain`.",
    },
    Metric {
        name: ENDPOINT,
        kind: "gauge",
        labels: "target, endpoint",
        meaning: "Whether an endpoint is left out: 0 used, 1 left out or on trial. Only where a client knows several endpoints.",
    },
    Metric {
        name: ENDPOINT_CHANGES,
        kind: "counter",
        labels: "target, endpoint, to (out, back)",
        meaning: "How often an endpoint was left out, failed trials included, and came back.",
    },
    Metric {
        name: BUDGET,
        kind: "gauge",
        labels: "target",
        meaning: "How many retries the budget would have allowed when a call last ended in a failure.",
    },
    Metric {
        name: IN_FLIGHT,
        kind: "gauge",
        labels: "target",
        meaning: "Calls under way, waits included.",
    },
    Metric {
        name: DURATION,
        kind: "histogram",
        labels: "target",
        meaning: "How long calls took, their retries and waits included, in seconds.",
    },
    Metric {
        name: SERVED,
        kind: "counter",
        labels: "service, attempt (first, again)",
        meaning: "Requests that the server layer admitted, and how many of them were retries or hedges.",
    },
    Metric {
        name: SHED,
        kind: "counter",
        labels: "service, reason (in-flight, queue-time, processor, deadline, too-slow), criticality",
        meaning: "Requests that the server layer refused.",
    },
    Metric {
        name: SERVING,
        kind: "gauge",
        labels: "service",
        meaning: "Requests that the server layer holds.",
    },
    Metric {
        name: POLICY,
        kind: "gauge",
        labels: "digest",
        meaning: "1 for the policy in force, by the digest of its compiled form; 0 for those before.",
    },
    Metric {
        name: POLICY_REFUSED,
        kind: "counter",
        labels: "source",
        meaning: "New policies that were refused because they were unreadable or wrong; the last good one stayed.",
    },
];

/// Attempts above this number share a label.
const NUMBERED: usize = 8;

/// What calls count under the lock that they hold anyway. Five metrics that were written with every call were more than a
/// tenth of its cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Calls under way, less those that were reported before. Not their number: another target of the same name, by another
    /// policy, has the same gauge.
    pub(crate) under_way: i64,
    /// Calls that have succeeded at once.
    pub(crate) clean: u64,
}

/// The handles of one target.
pub(crate) struct Telemetry {
    success: Counter,
    failure: Counter,
    refused: Counter,
    abandoned: Counter,
    attempts: [Counter; NUMBERED + 1],
    successes: [Counter; NUMBERED + 1],
    refusals: [Counter; Refusal::ALL.len()],
    breaker: Gauge,
    guard: Gauge,
    guard_share: Gauge,
    /// The gain and its error. Made with the first value: a guard that does not measure has none.
    gain: OnceLock<(Gauge, Gauge)>,
    budget: Gauge,
    in_flight: Gauge,
    duration: Histogram,
}

impl Telemetry {
    pub(crate) fn new(target: &str, guard: guard::State) -> Self {
        let labels = |extra: Option<(&'static str, String)>| {
            let mut labels = vec![Label::new("target", target.to_owned())];
            labels.extend(extra.map(|(key, value)| Label::new(key, value)));
            labels
        };
        let counter = |name: &'static str, key, value: &str| {
            metrics::counter!(name, labels(Some((key, value.to_owned()))))
        };
        let numbered = |name| {
            std::array::from_fn(|index| {
                let number = if index < NUMBERED {
                    (index + 1).to_string()
                } else {
                    "more".to_owned()
                };
                counter(name, "attempt", &number)
            })
        };
        let telemetry = Self {
            success: counter(CALLS, "result", "success"),
            failure: counter(CALLS, "result", "failure"),
            refused: counter(CALLS, "result", "refused"),
            abandoned: counter(CALLS, "result", "abandoned"),
            attempts: numbered(ATTEMPTS),
            successes: numbered(SUCCESSES),
            refusals: Refusal::ALL.map(|refusal| counter(REFUSALS, "reason", refusal.as_str())),
            breaker: metrics::gauge!(BREAKER, labels(None)),
            guard: metrics::gauge!(GUARD, labels(None)),
            guard_share: metrics::gauge!(GUARD_SHARE, labels(None)),
            gain: OnceLock::new(),
            budget: metrics::gauge!(BUDGET, labels(None)),
            in_flight: metrics::gauge!(IN_FLIGHT, labels(None)),
            duration: metrics::histogram!(DURATION, labels(None)),
        };
        telemetry.breaker.set(0.0);
        telemetry.guard.set(guard_number(guard));
        telemetry.guard_share.set(1.0);
        telemetry
    }

    /// What calls have counted: see [`Counts`].
    pub(crate) fn report(&self, counts: Counts) {
        self.in_flight.increment(counts.under_way as f64);
        self.attempts[0].increment(counts.clean);
        self.success.increment(counts.clean);
        self.successes[0].increment(counts.clean);
    }

    /// A call has ended with the success of its first attempt; it is counted elsewhere.
    #[inline]
    pub(crate) fn on_success_at_once(&self, nanos: u64) {
        self.duration.record(Duration::from_nanos(nanos));
    }

    pub(crate) fn on_verdict(&self, verdict: &Verdict, report: &Report, nanos: u64) {
        self.count_attempts(report.attempts);
        match verdict {
            Verdict::Success { number } => {
                self.success.increment(1);
                self.successes[place(*number)].increment(1);
            }
            Verdict::Failure { refusal, .. } => {
                self.failure.increment(1);
                self.refusals[refusal.index()].increment(1);
            }
            Verdict::Refused { refusal, .. } => {
                self.refused.increment(1);
                self.refusals[refusal.index()].increment(1);
            }
        }
        self.duration.record(Duration::from_nanos(nanos));
    }

    pub(crate) fn on_abandon(&self, attempts: u8) {
        self.abandoned.increment(1);
        self.count_attempts(attempts);
    }

    /// How much of the budget is left; told when a call has failed, which is when it matters.
    pub(crate) fn on_budget(&self, balance: u64) {
        self.budget.set(balance as f64);
    }

    /// What retries add at present.
    pub(crate) fn on_gain(&self, target: &str, gain: guard::Gain) {
        let (value, error) = self.gain.get_or_init(|| {
            let gauge = |name: &'static str| metrics::gauge!(name, "target" => target.to_owned());
            (gauge(GAIN), gauge(GAIN_ERROR))
        });
        value.set(gain.value);
        error.set(gain.error);
    }

    pub(crate) fn on_change(&self, target: &str, change: &Change, share: Ratio) {
        match change {
            Change::Breaker { from, to } => {
                self.breaker.set(match to {
                    breaker::State::Closed => 0.0,
                    breaker::State::Open => 1.0,
                    breaker::State::HalfOpen => 2.0,
                });
                count_change(BREAKER_CHANGES, target, to.as_str());
                tracing::info!(target: "retryguard", name = target, from = from.as_str(), to = to.as_str(), "breaker");
            }
            Change::Guard(decision) => {
                self.guard.set(guard_number(decision.to));
                self.guard_share.set(share.as_f64());
                count_change(GUARD_CHANGES, target, decision.to.as_str());
                tracing::info!(
                    target: "retryguard",
                    name = target,
                    from = decision.from.as_str(),
                    to = decision.to.as_str(),
                    reason = %decision.reason,
                    "guard"
                );
            }
        }
    }

    fn count_attempts(&self, attempts: u8) {
        if attempts == 0 {
            return;
        }
        self.attempts[0].increment(1);
        for number in 2..=attempts {
            self.attempts[place(number)].increment(1);
        }
    }
}

fn place(number: u8) -> usize {
    usize::from(number).saturating_sub(1).min(NUMBERED)
}

const fn guard_number(state: guard::State) -> f64 {
    match state {
        guard::State::On => 0.0,
        guard::State::Off => 1.0,
        guard::State::Ramping { .. } => 2.0,
    }
}

/// An endpoint was added, or removed: it is not left out.
pub(crate) fn endpoint_is_known(target: &str, endpoint: &str) {
    endpoint_gauge(target, endpoint).set(0.0);
}

/// An endpoint was left out, or is back.
pub(crate) fn on_endpoint(target: &str, endpoint: &str, change: &endpoints::Change) {
    let to = if change.out_for.is_some() { "out" } else { "back" };
    endpoint_gauge(target, endpoint).set(if change.out_for.is_some() { 1.0 } else { 0.0 });
    let (target_label, endpoint_label) = (target.to_owned(), endpoint.to_owned());
    metrics::counter!(ENDPOINT_CHANGES, "target" => target_label, "endpoint" => endpoint_label, "to" => to)
        .increment(1);
    tracing::info!(
        target: "retryguard",
        name = target,
        endpoint,
        to,
        seconds = change.out_for.map(|span| span.as_secs_f64()),
        reason = change.reason.as_str(),
        "endpoint"
    );
}

fn endpoint_gauge(target: &str, endpoint: &str) -> Gauge {
    metrics::gauge!(ENDPOINT, "target" => target.to_owned(), "endpoint" => endpoint.to_owned())
}

fn count_change(name: &'static str, target: &str, to: &'static str) {
    metrics::counter!(name, "target" => target.to_owned(), "to" => to).increment(1);
}

/// The reference page of all metrics, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics\n\nGenerated from the source; every name is exported through the `metrics` facade. Calls that succeed at once \
         and calls under way are counted without the recorder and handed to it once a second, by a task of the runtime that \
         makes the calls, and when that runtime ends or the last layer and service of the target are dropped.\n\n\
         | name | kind | labels | what it says |\n| --- | --- | --- | --- |\n",
    );
    for metric in METRICS {
        page += &format!(
            "| `{}` | {} | {} | {} |\n",
            metric.name, metric.kind, metric.labels, metric.meaning
        );
    }
    page += "\n## Reasons\n\nThe values of the label `reason`, and what an operator can do.\n\n| reason | next step |\n| --- | --- |\n";
    for refusal in Refusal::ALL {
        page += &format!("| `{refusal}` | {} |\n", refusal.next_step());
    }
    page
}
