//! The `resilience4j` block of a Spring Boot application: retry, circuit breaker, bulkhead and time limiter.

use std::time::Duration;

use super::{Read, nothing_found, number, span_of, spring, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Jitter},
    tree::Node,
    units,
};

const ROOT: &str = "resilience4j";

const PARTS: [&str; 4] = ["retry", "circuitbreaker", "bulkhead", "timelimiter"];

/// Part, key of a policy, and key of the part.
const KEYS: [(&str, &str, &str); 8] = [
    ("retry", "maxRetries", "max_attempts"),
    ("retry", "initialDelay", "wait_duration"),
    ("retry", "maxDelay", "exponential_max_wait_duration"),
    ("retry", "jitter", "enable_randomized_wait"),
    ("retry", "jitterFactor", "randomized_wait_factor"),
    ("circuitbreaker", "breaker", "minimum_number_of_calls"),
    ("bulkhead", "bulkhead", "max_concurrent_calls"),
    ("timelimiter", "attemptTimeout", "timeout_duration"),
];

/// The name of `maxAttempts` in version 1.
const OLD_ATTEMPTS: &str = "max_retry_attempts";

const MILLI: Duration = Duration::from_millis(1);

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    draft.defaults.retries = Some(0);
    // Resilience4j decides by exceptions; what is retried is what the client throws.
    let settings = spring::settings(documents, &mut draft);
    let mut found = false;
    for part in PARTS {
        let Some(block) = settings.at(&[ROOT, part]) else {
            continue;
        };
        found = true;
        // Version 1 calls the instances `backends`.
        let instances = block.get("instances").or_else(|| block.get("backends"));
        for (name, _, own) in instances.map(Node::entries).unwrap_or_default() {
            let blocks = chain(block, own, &mut draft);
            draft.from(name, own.line);
            let service = draft.service(name);
            if service.places.block.is_none() {
                service.block(format!("instance `{name}`"), own.line);
            }
            for (key, own) in KEYS
                .iter()
                .filter(|(of, _, _)| *of == part)
                .map(|(_, key, own)| (key, own))
            {
                service.written(key, blocks.iter().find_map(|block| block.get(own)));
            }
            for block in &blocks {
                unread(block, &known(part), &format!("`{part}`"), &mut draft);
            }
            read_part(part, name, own.line, &blocks, &mut draft);
        }
        let known = ["instances", "backends", "configs", "metrics", "tags"];
        unread(block, &known, &format!("`{part}`"), &mut draft);
    }
    for other in ["ratelimiter", "thread-pool-bulkhead"] {
        if let Some(block) = settings.at(&[ROOT, other]) {
            draft.lost(block.line, format!("`{other}` has no key in a policy"));
        }
    }
    if !found {
        return Err(nothing_found("no `resilience4j` block with instances"));
    }
    Ok(Read {
        draft,
        beside: Beside::None,
    })
}

/// The keys of an instance that are read, that are named by a note of their own, or that change no call.
fn known(part: &str) -> Vec<&'static str> {
    const ANY: [&str; 5] = [
        "base_config",
        "register_health_indicator",
        "allow_health_indicator_to_fail",
        "event_consumer_buffer_size",
        "subscribe_for_events",
    ];
    let own: &[&str] = match part {
        "retry" => &[
            "max_attempts",
            OLD_ATTEMPTS,
            "wait_duration",
            "enable_exponential_backoff",
            "exponential_backoff_multiplier",
            "exponential_max_wait_duration",
            "enable_randomized_wait",
            "randomized_wait_factor",
            "retry_exceptions",
            "ignore_exceptions",
            "retry_exception_predicate",
            "result_predicate",
            "fail_after_max_attempts",
        ],
        "circuitbreaker" => &[
            "failure_rate_threshold",
            "sliding_window_size",
            "sliding_window_type",
            "minimum_number_of_calls",
            "wait_duration_in_open_state",
            "permitted_number_of_calls_in_half_open_state",
            "slow_call_rate_threshold",
            "slow_call_duration_threshold",
            "record_exceptions",
            "ignore_exceptions",
            "writable_stack_trace_enabled",
        ],
        "bulkhead" => &[
            "max_concurrent_calls",
            "max_wait_duration",
            "writable_stack_trace_enabled",
        ],
        _ => &["timeout_duration"],
    };
    [&ANY, own].concat()
}

/// An instance over its base config, that over its own, and so on: the first block that has a key decides. A block that names no
/// base has `default`.
fn chain<'a>(block: &'a Node, own: &'a Node, draft: &mut Draft) -> Vec<&'a Node> {
    let configs = block.get("configs").map(Node::entries).unwrap_or_default();
    let mut blocks = vec![own];
    let mut seen: Vec<&str> = Vec::new();
    let mut last = own;
    loop {
        let named = last.get("base_config");
        let base = named.and_then(Node::text).unwrap_or("default");
        let config = configs.iter().find(|(name, _, _)| name == base);
        let Some((base, _, config)) = config.filter(|_| !seen.contains(&base)) else {
            if let (Some(named), None) = (named, config) {
                draft.lost(
                    named.line,
                    format!("there is no config `{base}`: resilience4j does not start with this file"),
                );
            }
            return blocks;
        };
        seen.push(base);
        blocks.push(config);
        last = config;
    }
}

fn read_part(part: &str, name: &str, line: u32, blocks: &[&Node], draft: &mut Draft) {
    match part {
        "retry" => read_retry(name, line, blocks, draft),
        "circuitbreaker" => read_breaker(name, line, blocks, draft),
        "bulkhead" => {
            let limit = blocks
                .iter()
                .find_map(|it| whole(it, "max_concurrent_calls", draft))
                .map_or(25, |it| it.0);
            let wait = time(blocks, "max_wait_duration", draft).unwrap_or_default();
            let queue = if wait.is_zero() { 0 } else { 1_000_000 };
            let text = format!(
                "{{limit: {}, wait: {}, waiting: {queue}}}",
                limit.clamp(1, 1_000_000),
                units::written(wait.min(Duration::from_secs(3600)))
            );
            draft.service(name).section("bulkhead", text);
        }
        _ => {
            let timeout = time(blocks, "timeout_duration", draft).unwrap_or(Duration::from_secs(1));
            draft.service(name).attempt_timeout = Some(Some(timeout));
        }
    }
}

/// How many attempts a block asks for.
fn attempts(block: &Node, draft: &mut Draft) -> Option<u32> {
    if let Some((attempts, _)) = whole(block, "max_attempts", draft) {
        return Some(attempts);
    }
    let (attempts, line) = whole(block, OLD_ATTEMPTS, draft)?;
    let key = block.spelt(OLD_ATTEMPTS);
    draft.changed(
        line,
        format!("`{key}` is the key of resilience4j 1: version 2 does not read it and makes 3 attempts"),
    );
    Some(attempts)
}

fn time(blocks: &[&Node], key: &str, draft: &mut Draft) -> Option<Duration> {
    blocks.iter().find_map(|block| span_of(block, key, MILLI, draft))
}

fn read_retry(name: &str, line: u32, blocks: &[&Node], draft: &mut Draft) {
    let flag = |key: &str| blocks.iter().find_map(|block| block.get(key)?.flag()) == Some(true);
    let attempts = blocks
        .iter()
        .find_map(|block| attempts(block, draft))
        .unwrap_or(3);
    let wait = time(blocks, "wait_duration", draft).unwrap_or(Duration::from_millis(500));
    let (exponential, random) = (flag("enable_exponential_backoff"), flag("enable_randomized_wait"));
    let multiplier = blocks
        .iter()
        .find_map(|it| number(it, "exponential_backoff_multiplier", draft));
    let factor = blocks
        .iter()
        .find_map(|it| number(it, "randomized_wait_factor", draft))
        .map_or(0.5, |it| it.0);
    let cap = time(blocks, "exponential_max_wait_duration", draft);
    for block in blocks {
        for key in [
            "retry_exceptions",
            "ignore_exceptions",
            "retry_exception_predicate",
            "result_predicate",
        ] {
            if let Some(node) = block.get(key) {
                let key = block.spelt(key);
                draft.lost(
                    node.line,
                    format!("`{key}` names Java classes: the policy reads statuses instead"),
                );
            }
        }
        if let Some(node) = block.get("fail_after_max_attempts") {
            let key = block.spelt("fail_after_max_attempts");
            draft.lost(node.line, format!("`{key}` has no key in a policy"));
        }
    }
    let service = draft.service(name);
    service.retries = Some(attempts.saturating_sub(1));
    service.initial = Some(wait);
    if exponential {
        service.multiplier = Some(multiplier.map_or(1.5, |it| it.0));
        service.cap = Some(cap.unwrap_or(units::LONGEST).max(wait));
    } else {
        service.growth = Some("constant");
        service.cap = Some(wait);
    }
    service.jitter = Some(if random {
        Jitter::Factor(factor)
    } else {
        Jitter::None
    });
    if cap.is_none() && exponential && attempts > 1 {
        draft.changed(line, "the back-off has no cap, and a policy's is at most a day");
    }
}

fn read_breaker(name: &str, line: u32, blocks: &[&Node], draft: &mut Draft) {
    let mut find = |key: &str| {
        blocks
            .iter()
            .find_map(|block| number(block, key, draft))
            .map(|it| it.0)
    };
    let probes = find("permitted_number_of_calls_in_half_open_state")
        .unwrap_or(10.0)
        .clamp(1.0, 1000.0);
    let slow_rate = find("slow_call_rate_threshold");
    let least = find("minimum_number_of_calls").unwrap_or(100.0);
    let rate = find("failure_rate_threshold");
    let size = find("sliding_window_size").unwrap_or(100.0).clamp(1.0, 1e6);
    for (key, rate) in [
        ("failureRateThreshold", rate),
        ("slowCallRateThreshold", slow_rate),
    ] {
        if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate <= 100.0)) {
            draft.lost(
                line,
                format!("resilience4j refuses a `{key}` of {rate}: it is above 0 and at most 100"),
            );
        }
    }
    let rate = rate.unwrap_or(50.0).clamp(1.0, 100.0);
    let slow_rate = slow_rate.map(|rate| rate.clamp(1.0, 100.0));
    let kind = blocks.iter().find_map(|block| block.get("sliding_window_type"));
    let kind_is = |name: &str| {
        let text = kind.and_then(Node::text).unwrap_or("COUNT_BASED");
        text.replace('-', "_").eq_ignore_ascii_case(name)
    };
    let by_time = kind_is("TIME_BASED");
    if let Some(kind) = kind.filter(|_| !by_time && !kind_is("COUNT_BASED")) {
        draft.lost(
            kind.line,
            "a `slidingWindowType` is COUNT_BASED or TIME_BASED: the first is taken",
        );
    }
    let window = if by_time {
        Duration::from_secs_f64(size.clamp(0.1, 3600.0))
    } else {
        Duration::from_secs(10)
    };
    if !by_time {
        draft.changed(
            line,
            format!("a window of the last {size} calls becomes one of ten seconds"),
        );
    }
    let least = match by_time {
        true => least,
        false => least.min(size),
    };
    let open = time(blocks, "wait_duration_in_open_state", draft).unwrap_or(Duration::from_secs(60));
    let open = units::written(open.clamp(MILLI, Duration::from_secs(3600)));
    let slow_call = time(blocks, "slow_call_duration_threshold", draft);
    // Where one of the two is written, the default of the other holds.
    let slow = if slow_rate.is_some() || slow_call.is_some() {
        let above = slow_call.unwrap_or(Duration::from_secs(60));
        let above = units::written(above.clamp(MILLI, Duration::from_secs(3600)));
        format!(
            ", slowCall: {above}, slowCallRatio: {}%",
            slow_rate.unwrap_or(100.0)
        )
    } else {
        String::new()
    };
    let text = format!(
        "{{trip: rate, ratio: {rate}%, minimumCalls: {}, window: {}{slow}, openFor: {open}, openForAtMost: {open}, probes: \
         {probes}, closeAfter: {probes}}}",
        least.clamp(1.0, 1e6),
        units::written(window)
    );
    for block in blocks {
        for key in ["record_exceptions", "ignore_exceptions"] {
            if let Some(node) = block.get(key) {
                let key = block.spelt(key);
                draft.lost(
                    node.line,
                    format!("`{key}` of a circuit breaker has no key in a policy"),
                );
            }
        }
    }
    draft.service(name).section("breaker", text);
}
