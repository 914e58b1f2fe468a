//! The four patterns, and the constant that the configurations of each differ in.

/// A model and the constant that its configurations differ in.
pub(super) struct Pattern {
    /// The published abbreviation.
    pub(super) short: &'static str,
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) parameter: &'static str,
    /// The published name of the parameter.
    pub(super) label: &'static str,
    pub(super) values: &'static [i64],
}

pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        short: "SP",
        title: "Simple Proxy",
        text: include_str!("../../../models/resiliency-patterns/simple-proxy.prism"),
        parameter: "CONN_TO",
        label: "CTO",
        values: &[2, 10, 20, 40],
    },
    Pattern {
        short: "RP",
        title: "Retry",
        text: include_str!("../../../models/resiliency-patterns/retry.prism"),
        parameter: "MAX_BO",
        label: "MBO",
        values: &[10, 20, 40],
    },
    Pattern {
        short: "SCB",
        title: "Static Circuit Breaker",
        text: include_str!("../../../models/resiliency-patterns/static-circuit-breaker.prism"),
        parameter: "MAX_TO",
        label: "CBTO",
        values: &[10, 20, 40],
    },
    Pattern {
        short: "DCB",
        title: "Dynamic Circuit Breaker",
        text: include_str!("../../../models/resiliency-patterns/dynamic-circuit-breaker.prism"),
        parameter: "MAX_TO",
        label: "CBTO",
        values: &[10, 20, 40],
    },
];

/// A pattern with the counter of its breaker's re-openings written as others write it: it ends at 9999 and is not held there, so that
/// at the end no further failure can happen. A pattern without that counter stays as it is.
pub(super) fn with_long_counters(text: &str) -> String {
    if !text.contains("const int MAX_REOPEN = 1000;") {
        return text.to_owned();
    }
    text.replace("const int MAX_REOPEN = 1000;", "const int MAX_REOPEN = 9999;")
        .replace(
            "failures = HALF_OPEN_ERR - 1\n    ->",
            "failures = HALF_OPEN_ERR - 1 & reopens < MAX_REOPEN\n    ->",
        )
        .replace(
            "(reopens' = min(reopens + 1, MAX_REOPEN))",
            "(reopens' = reopens + 1)",
        )
}

pub(super) const TIMES: &str = include_str!("../../../models/resiliency-patterns/times.props");
