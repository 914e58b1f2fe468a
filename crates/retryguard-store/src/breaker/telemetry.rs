//! What operators see of shared breakers.

use retryguard_core::breaker::State;

const CONNECTED: &str = "retryguard_shared_breaker_connected";
const CALLS: &str = "retryguard_shared_breaker_calls_total";
const ADOPTED: &str = "retryguard_shared_breaker_adopted_total";

/// Every metric of shared breakers: name, kind, labels, meaning.
pub const METRICS: &[(&str, &str, &str, &str)] = &[
    (
        CONNECTED,
        "gauge",
        "",
        "1 while this replica shares its breakers, 0 while Redis is away and it goes on alone.",
    ),
    (
        CALLS,
        "counter",
        "call (open, close, rejoin), result (ok, failed)",
        "Scripts that were run: one for each change of a breaker, one for each target after a connection.",
    ),
    (
        ADOPTED,
        "counter",
        "target, to (open, closed)",
        "Changes of a breaker of this replica that came from another replica.",
    ),
];

pub(super) fn connected(is: bool) {
    metrics::gauge!(CONNECTED).set(f64::from(u8::from(is)));
}

pub(super) fn called(call: &'static str, ok: bool) {
    let result = if ok { "ok" } else { "failed" };
    metrics::counter!(CALLS, "call" => call, "result" => result).increment(1);
}

pub(super) fn adopted(target: &str, to: State) {
    metrics::counter!(ADOPTED, "target" => target.to_owned(), "to" => to.as_str()).increment(1);
    tracing::info!(target: "retryguard", name = target, to = to.as_str(), "breaker state adopted from another replica");
}
