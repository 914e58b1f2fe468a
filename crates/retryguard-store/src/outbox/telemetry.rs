//! What operators see of an outbox.

use metrics::{Counter, Gauge};

use super::Counts;

const PENDING: &str = "retryguard_outbox_pending";
const PARKED: &str = "retryguard_outbox_parked";
const LAG: &str = "retryguard_outbox_lag_seconds";
const PUBLISHED: &str = "retryguard_outbox_published_total";
const FAILED: &str = "retryguard_outbox_failures_total";
const GIVEN_UP: &str = "retryguard_outbox_given_up_total";
const LOST: &str = "retryguard_outbox_lost_leases_total";
const ERRORS: &str = "retryguard_outbox_store_errors_total";
const CLEANED: &str = "retryguard_outbox_cleaned_total";

/// Every metric of the outbox: name, kind, labels, meaning.
pub const METRICS: &[(&str, &str, &str, &str)] = &[
    (
        PENDING,
        "gauge",
        "outbox",
        "Events that are written and not yet published.",
    ),
    (
        PARKED,
        "gauge",
        "outbox",
        "Events that were given up and wait for an operator. Alert on more than none.",
    ),
    (
        LAG,
        "gauge",
        "outbox",
        "The age of the oldest event that is not yet published, in seconds.",
    ),
    (PUBLISHED, "counter", "outbox", "Events published."),
    (
        FAILED,
        "counter",
        "outbox",
        "Tries that failed, those that parked their event included.",
    ),
    (GIVEN_UP, "counter", "outbox", "Events parked."),
    (
        LOST,
        "counter",
        "outbox",
        "Keys whose lease had gone to another worker when this one had done with them: their events were or will be delivered again. Raise `lease` if it grows.",
    ),
    (
        ERRORS,
        "counter",
        "outbox",
        "Requests of the worker that the database did not fulfil.",
    ),
    (
        CLEANED,
        "counter",
        "outbox",
        "Published events deleted after their time.",
    ),
];

/// The handles of one worker.
pub(super) struct Telemetry {
    pending: Gauge,
    parked: Gauge,
    lag: Gauge,
    pub(super) published: Counter,
    pub(super) failed: Counter,
    pub(super) given_up: Counter,
    pub(super) lost: Counter,
    pub(super) errors: Counter,
    pub(super) cleaned: Counter,
}

impl Telemetry {
    pub(super) fn new(outbox: &str) -> Self {
        let counter = |name: &'static str| metrics::counter!(name, "outbox" => outbox.to_owned());
        let gauge = |name: &'static str| metrics::gauge!(name, "outbox" => outbox.to_owned());
        Self {
            pending: gauge(PENDING),
            parked: gauge(PARKED),
            lag: gauge(LAG),
            published: counter(PUBLISHED),
            failed: counter(FAILED),
            given_up: counter(GIVEN_UP),
            lost: counter(LOST),
            errors: counter(ERRORS),
            cleaned: counter(CLEANED),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is a float; counts of this size are exact"
    )]
    pub(super) fn on_counts(&self, counts: &Counts) {
        self.pending.set(counts.pending as f64);
        self.parked.set(counts.parked as f64);
        self.lag.set(counts.lag.as_secs_f64());
    }
}
