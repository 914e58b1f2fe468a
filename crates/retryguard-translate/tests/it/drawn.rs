//! Policies by chance, for properties.

use std::fmt::Write as _;

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

/// What imported policies have beside what is drawn.
const FOREIGN: &str = "retryRetried: true, budget: off, guard: off, breaker: off, bulkhead: off, gate: {scope: call, \
                       atMost: 0}, server: off, multiplier: 2, jitter: full";

/// What Envoy's words mean as a policy's lists.
const LISTS: [&str; 4] = [
    // connect-failure
    "neverRetryOn: [overload, fault, timeout, disconnected]",
    // reset,connect-failure
    "neverRetryOn: [overload, fault, 408, 504, DEADLINE_EXCEEDED, 502]",
    // 5xx
    "retryOn: [5xx], neverRetryOn: [429, RESOURCE_EXHAUSTED, UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS, ABORTED, 408, \
     DEADLINE_EXCEEDED]",
    // gateway-error and 409, 429
    "retryOn: [409], neverRetryOn: [RESOURCE_EXHAUSTED, UNAVAILABLE, fault, 408, DEADLINE_EXCEEDED]",
];

/// One service of a policy.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub(crate) retries: u32,
    pub(crate) base_ms: u64,
    pub(crate) cap: u64,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) lists: usize,
    pub(crate) percent: Option<u32>,
    pub(crate) limit: Option<u32>,
    pub(crate) breaker: Option<(u32, u32)>,
    pub(crate) retry_after: Option<u32>,
    pub(crate) methods: bool,
}

pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
    let numbers = (1u32..=5, 1u64..=1000, 1u64..=20, 0..LISTS.len());
    let times = (
        proptest::option::of(1u64..=60_000),
        proptest::option::of(1u64..=60_000),
    );
    let parts = (
        proptest::option::of(1u32..=100),
        proptest::option::of(1u32..=1000),
        proptest::option::of((1u32..=20, 1u32..=60)),
        proptest::option::of(1u32..=600),
        any::<bool>(),
    );
    (numbers, times, parts).prop_map(|(numbers, times, parts)| Drawn {
        retries: numbers.0,
        base_ms: numbers.1,
        cap: numbers.2,
        lists: numbers.3,
        timeout_ms: times.0,
        deadline_ms: times.1,
        percent: parts.0,
        limit: parts.1,
        breaker: parts.2,
        retry_after: parts.3,
        methods: parts.4,
    })
}

impl Drawn {
    /// A policy with this service, whose delays grow to `factor` times the first, and with one that is not retried.
    pub(crate) fn policy(&self, factor: u64) -> String {
        format!(
            "defaults: {{{FOREIGN}}}\nservices:\n  'shop:1':\n    {}\n  idle: {{maxRetries: 0, deadline: 5s, initialDelay: \
             100ms, maxDelay: 10s, retryNonIdempotent: true}}\n",
            self.service(factor)
        )
    }

    /// The keys of the service, indented by four.
    fn service(&self, factor: u64) -> String {
        let mut keys = vec![
            format!("maxRetries: {}", self.retries),
            format!("initialDelay: {}ms", self.base_ms),
            format!("maxDelay: {}ms", self.base_ms * factor),
            LISTS[self.lists].to_owned(),
        ];
        let mut time = |key: &str, value: Option<u64>| {
            keys.push(value.map_or_else(|| format!("{key}: off"), |value| format!("{key}: {value}ms")));
        };
        time("attemptTimeout", self.timeout_ms);
        time("deadline", self.deadline_ms);
        keys.extend(
            self.percent
                .map(|percent| format!("budget: {{percent: {percent}%}}")),
        );
        keys.extend(self.limit.map(|limit| format!("bulkhead: {{limit: {limit}}}")));
        keys.extend(self.breaker.map(|(failures, open)| {
            format!("breaker: {{trip: consecutive, failures: {failures}, openFor: {open}s, openForAtMost: {open}s}}")
        }));
        keys.extend(
            self.retry_after
                .map(|after| format!("gate: {{scope: call, atMost: {after}s}}")),
        );
        if self.methods {
            keys.push("idempotency: {methods: [GET, HEAD, PUT]}".to_owned());
        } else {
            keys.push("retryNonIdempotent: true".to_owned());
        }
        keys.join("\n    ")
            .replace(", neverRetryOn", "\n    neverRetryOn")
    }
}

/// One policy with many drawn services, half of them with RetryGuard's own parts beside what is drawn. The same at every call.
pub(crate) fn many(services: usize) -> String {
    let mut runner = TestRunner::deterministic();
    let mut text = "services:\n".to_owned();
    for index in 0..services {
        let drawn = drawn()
            .new_tree(&mut runner)
            .expect("a strategy without filters")
            .current();
        let foreign = FOREIGN
            .replace(", atMost: 0}", "; atMost: 0}")
            .replace(", ", "\n    ")
            .replace("; ", ", ");
        let mut keys = drawn.service(drawn.cap);
        // A key that is drawn replaces the one of the list.
        for line in foreign.lines().map(str::trim) {
            let key = line.split(':').next().unwrap_or_default();
            let written = keys
                .lines()
                .any(|drawn| drawn.trim().starts_with(&format!("{key}:")));
            if index % 2 == 0 && !written {
                keys.push_str("\n    ");
                keys.push_str(line);
            }
        }
        let _ = writeln!(text, "  {}:\n    {keys}", name(index));
    }
    text
}

/// Names as users write them: a word, a host with a port, a name of DNS, and one that Kubernetes does not take.
fn name(index: usize) -> String {
    match index % 4 {
        0 => format!("shop{index}"),
        1 => format!("'shop{index}:8080'"),
        2 => format!("shop{index}.prod.svc.cluster.local"),
        _ => format!("Shop_{index}"),
    }
}
