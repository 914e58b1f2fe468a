//! The words of the field.

/// Each term with its explanation.
pub(super) const NAMES: &[(&str, &str)] = &[
    (
        "retry-storm",
        "A service slows down, its clients retry, the retries load it further, and a hiccup becomes an outage that lasts \
         after its cause is gone. RetryGuard bounds the sum of all retries (budget), stops them while they do harm (guard), \
         and spreads them (jitter). See `retryguard demo`.",
    ),
    (
        "amplification",
        "The attempts that arrive at a service for one call at the edge. Attempts multiply along the calls: three layers of \
         three attempts are 27. `retryguard lint` counts the worst path; retry at one layer only.",
    ),
    (
        "metastable",
        "A state that keeps itself up: the load of the retries is enough to keep the service overloaded although the fault \
         that began it is gone. A budget below the spare capacity makes such a state impossible.",
    ),
    (
        "retry-after",
        "The header by which an overloaded service says when to come back (RFC 9110, section 10.2.3). RetryGuard obeys it \
         for the target as a whole, not for one call alone: `gate.scope`, up to `gate.atMost`, and spreads those that were \
         held back: `gate.spread`.",
    ),
    (
        "jitter",
        "Chance laid over a delay, so that clients that failed together do not come back together. Full jitter draws \
         uniformly from zero to the delay. Lint code RG005.",
    ),
    (
        "backoff",
        "The delay before a retry, which grows from one retry to the next: `initialDelay`, `multiplier`, `maxDelay`, `growth`.",
    ),
    (
        "deadline",
        "The time after which a call is of no use to its caller. RetryGuard sends it to the next service, and starts no \
         attempt that cannot end before it. Lint codes RG007, RG008, RG009 and RG022.",
    ),
    (
        "idempotency",
        "A request is idempotent if doing it twice has the effect of doing it once. Others are retried only with an \
         idempotency key that the server honours: `idempotency.addKeys`. Lint code RG011.",
    ),
    (
        "goodput",
        "Calls that succeed before their deadline, per second or as a share. Throughput also counts work that came too late.",
    ),
    (
        "criticality",
        "How much a call matters: critical-plus, critical, sheddable-plus, sheddable. An overloaded server sheds the lowest \
         first, and retries before first attempts.",
    ),
    (
        "circuit-breaker",
        "Cuts a target off that fails: calls are refused at once, and a few probes find out when it is back. See \
         `retryguard explain breaker`.",
    ),
    (
        "digest",
        "A hash of what a policy means. Comments, layout and defaults written out do not change it. It stands on every \
         result, metric and status.",
    ),
];

pub(super) fn text(what: &str) -> Option<String> {
    let wanted = what.to_lowercase().replace([' ', '_'], "-");
    NAMES
        .iter()
        .find(|(name, _)| *name == wanted)
        .map(|(name, words)| super::wrapped(&format!("{name}: {words}")) + "\n")
}
