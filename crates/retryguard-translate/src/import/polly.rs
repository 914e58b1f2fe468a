//! Options of Polly 8 and of Microsoft.Extensions.Http.Resilience, as a JSON or YAML file holds them.

use std::time::Duration;

use super::{Read, nothing_found, number, span_of, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Jitter, Service},
    signals::Signals,
    tree::{Body, Node, plain},
    units,
};

const PARTS: [&str; 6] = [
    "Retry",
    "CircuitBreaker",
    "AttemptTimeout",
    "TotalRequestTimeout",
    "RateLimiter",
    "Timeout",
];

/// A number without colons: .NET writes times as `00:00:02`, and reads `2` as two days.
const DAY: Duration = Duration::from_secs(86_400);

/// How the names of the standard handlers' options end.
const STANDARD: [&str; 2] = ["resilienceoptions", "standardresilience"];

pub(super) fn is_it(document: &Node) -> bool {
    document.maps().into_iter().any(is_pipeline)
}

fn is_pipeline(map: &Node) -> bool {
    let retry = map.get("Retry").is_some_and(|retry| {
        retry.get("MaxRetryAttempts").is_some()
            || retry.get("BackoffType").is_some()
            || retry.get("UseJitter").is_some()
    });
    let breaker = map.get("CircuitBreaker").is_some_and(|breaker| {
        breaker.get("FailureRatio").is_some() || breaker.get("BreakDuration").is_some()
    });
    let mut timeouts = ["AttemptTimeout", "TotalRequestTimeout"].into_iter();
    retry || breaker || timeouts.any(|key| map.at(&[key, "Timeout"]).is_some())
}

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    draft.defaults.retries = Some(0);
    let mut found = 0;
    for document in documents {
        let mut named = Vec::new();
        pipelines(&[], document, &mut named);
        for (path, pipeline) in named {
            found += 1;
            let name = service_name(&path);
            let key = path.last().copied().unwrap_or_default();
            let mut service = read_pipeline(key, pipeline, &mut draft);
            service.block(format!("pipeline `{name}`"), pipeline.line);
            draft.merge(&name, pipeline.line, "pipeline", service);
        }
    }
    if found == 0 {
        return Err(nothing_found("no block with `Retry` or `CircuitBreaker` options"));
    }
    Ok(Read {
        draft,
        beside: Beside::None,
    })
}

/// Every pipeline at or below a node, with the keys that lead to it.
fn pipelines<'a>(path: &[&'a str], node: &'a Node, found: &mut Vec<(Vec<&'a str>, &'a Node)>) {
    if is_pipeline(node) {
        found.push((path.to_vec(), node));
    }
    for (key, _, value) in node.entries() {
        pipelines(&[path, &[key.as_str()]].concat(), value, found);
    }
    for item in node.items() {
        pipelines(path, item, found);
    }
}

/// The innermost key that says more than what kind of block it is: `Orders` for `Orders: {Resilience: {Retry: …}}`.
fn service_name(path: &[&str]) -> String {
    const KINDS: [&str; 8] = [
        "resilience",
        "polly",
        "policy",
        "policies",
        "pipeline",
        "pipelines",
        "strategies",
        "options",
    ];
    let names = |key: &&&str| {
        let key = plain(key);
        !(KINDS.contains(&key.as_str()) || STANDARD.iter().any(|end| key.ends_with(end)))
    };
    let name = path.iter().rev().find(names).or(path.last());
    name.map_or("default", |name| *name).to_owned()
}

fn read_pipeline(name: &str, pipeline: &Node, draft: &mut Draft) -> Service {
    let mut service = Service::default();
    for (key, path) in [
        ("maxRetries", ["Retry", "MaxRetryAttempts"]),
        ("initialDelay", ["Retry", "Delay"]),
        ("maxDelay", ["Retry", "MaxDelay"]),
        ("jitter", ["Retry", "UseJitter"]),
        ("gate", ["Retry", "ShouldRetryAfterHeader"]),
        ("breaker", ["CircuitBreaker", "MinimumThroughput"]),
        ("attemptTimeout", ["AttemptTimeout", "Timeout"]),
        ("deadline", ["TotalRequestTimeout", "Timeout"]),
    ] {
        service.written(key, pipeline.at(&path));
    }
    let standard = is_standard(name, pipeline);
    let empty = Node {
        line: pipeline.line,
        body: Body::Map(Vec::new()),
    };
    // The standard handler has every part, whatever the file writes.
    let part = |key: &str| pipeline.get(key).or_else(|| standard.then_some(&empty));
    if standard {
        let parts = ["TotalRequestTimeout", "Retry", "CircuitBreaker", "AttemptTimeout"];
        let missing: Vec<String> = parts
            .iter()
            .filter(|part| pipeline.get(part).is_none())
            .map(|part| format!("`{part}`"))
            .collect();
        if !missing.is_empty() {
            draft.changed(
                pipeline.line,
                format!(
                    "the standard handler's defaults are taken for {}, which the file does not write",
                    missing.join(", ")
                ),
            );
        }
    }
    match part("Retry") {
        Some(retry) => read_retry(retry, standard, &mut service, draft),
        None => service.retries = Some(0),
    }
    if let Some(breaker) = part("CircuitBreaker") {
        read_breaker(breaker, &mut service, draft);
    }
    let timeout = |key: &str, usual: u64, draft: &mut Draft| {
        let timeout = span_of(part(key)?, "Timeout", DAY, draft);
        let usual = || standard.then(|| Duration::from_secs(usual));
        timeout.or_else(usual).filter(|it| !it.is_zero())
    };
    service.attempt_timeout = Some(timeout("AttemptTimeout", 10, draft));
    service.deadline = Some(timeout("TotalRequestTimeout", 30, draft));
    if let Some(limiter) = pipeline.get("RateLimiter") {
        let options = limiter.get("DefaultRateLimiterOptions").unwrap_or(limiter);
        match whole(options, "PermitLimit", draft) {
            Some((limit, _)) => {
                let waiting = whole(options, "QueueLimit", draft)
                    .map_or(0, |it| it.0)
                    .min(1_000_000);
                let wait = if waiting == 0 { "0" } else { "1h" };
                let limit = limit.clamp(1, 1_000_000);
                service.section(
                    "bulkhead",
                    format!("{{limit: {limit}, wait: {wait}, waiting: {waiting}}}"),
                );
            }
            None => draft.lost(limiter.line, "a rate limiter other than the concurrency limiter"),
        }
    }
    if let Some(timeout) = pipeline.get("Timeout") {
        draft.lost(
            timeout.line,
            "`Timeout` bounds each attempt or the whole call, by its place in the pipeline, which the file does not hold: write \
             `attemptTimeout` or `deadline`",
        );
    }
    unread(pipeline, &PARTS, "a pipeline", draft);
    service
}

/// Whether it configures the standard handler for HTTP of Microsoft.Extensions.Http.Resilience: only that has one of these parts.
fn is_standard(name: &str, pipeline: &Node) -> bool {
    let parts = ["AttemptTimeout", "TotalRequestTimeout"];
    STANDARD.iter().any(|end| plain(name).ends_with(end))
        || parts.iter().any(|part| pipeline.get(part).is_some())
}

fn read_retry(retry: &Node, standard: bool, service: &mut Service, draft: &mut Draft) {
    service.retries = Some(whole(retry, "MaxRetryAttempts", draft).map_or(3, |it| it.0));
    let delay = span_of(retry, "Delay", DAY, draft).unwrap_or(Duration::from_secs(2));
    let kind = retry
        .get("BackoffType")
        .and_then(Node::text)
        .unwrap_or(if standard { "Exponential" } else { "Constant" });
    let grows = kind.eq_ignore_ascii_case("Exponential") || kind == "2";
    service.initial = Some(delay);
    service.cap = Some(
        span_of(retry, "MaxDelay", DAY, draft)
            .unwrap_or(units::LONGEST)
            .max(delay),
    );
    if grows {
        service.multiplier = Some(2.0);
    } else if kind.eq_ignore_ascii_case("Linear") || kind == "1" {
        service.growth = Some("linear");
    } else {
        if !(kind.eq_ignore_ascii_case("Constant") || kind == "0") {
            draft.lost(
                retry.get("BackoffType").unwrap_or(retry).line,
                format!("Polly does not know the `BackoffType` {kind}: a constant delay is taken"),
            );
        }
        service.growth = Some("constant");
        service.cap = Some(delay);
    }
    let jitter = retry.get("UseJitter").and_then(Node::flag).unwrap_or(standard);
    service.jitter = Some(match (jitter, grows) {
        (false, _) => Jitter::None,
        (true, true) => Jitter::Decorrelated,
        (true, false) => Jitter::Factor(0.25),
    });
    if jitter && grows {
        draft.changed(
            retry.line,
            "Polly's decorrelated jitter has a smoother formula than the policy's, around the same mean growth",
        );
    }
    // What the standard handler retries: 408, 429, every 5xx, failures of the network and attempts that time out.
    let mut signals = Signals {
        all_5xx: true,
        ..Signals::default()
    }
    .network(&["unreachable", "disconnected", "timeout"]);
    signals.statuses.extend([408, 429]);
    service.signals = Some(signals);
    if retry.get("ShouldRetryAfterHeader").and_then(Node::flag) != Some(false) {
        service.section("gate", "{scope: call, atMost: 1h}");
    }
    let known = [
        "MaxRetryAttempts",
        "Delay",
        "MaxDelay",
        "BackoffType",
        "UseJitter",
        "ShouldRetryAfterHeader",
    ];
    unread(retry, &known, "`Retry`", draft);
}

fn read_breaker(breaker: &Node, service: &mut Service, draft: &mut Draft) {
    let ratio = number(breaker, "FailureRatio", draft)
        .map_or(0.1, |it| it.0)
        .clamp(0.01, 1.0);
    let least = whole(breaker, "MinimumThroughput", draft)
        .map_or(100, |it| it.0)
        .clamp(1, 1_000_000);
    let hour = Duration::from_secs(3600);
    let window = span_of(breaker, "SamplingDuration", DAY, draft).unwrap_or(Duration::from_secs(30));
    let window = window.clamp(Duration::from_millis(100), hour);
    let open = span_of(breaker, "BreakDuration", DAY, draft).unwrap_or(Duration::from_secs(5));
    let open = units::written(open.clamp(Duration::from_millis(1), hour));
    service.section(
        "breaker",
        format!(
            "{{trip: rate, ratio: {}%, minimumCalls: {least}, window: {}, openFor: {open}, openForAtMost: {open}, \
             probes: 1, closeAfter: 1}}",
            ratio * 100.0,
            units::written(window)
        ),
    );
    let known = [
        "FailureRatio",
        "MinimumThroughput",
        "SamplingDuration",
        "BreakDuration",
    ];
    unread(breaker, &known, "`CircuitBreaker`", draft);
}
