//! A gRPC service config: retry and hedging policies of methods, and retry throttling.

use std::time::Duration;

use super::{Read, nothing_found, number, span, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Jitter, Service},
    signals::{self, Signals},
    tree::Node,
    units,
};

/// gRPC never makes more attempts than this, whatever a config says.
const MOST_ATTEMPTS: u32 = 5;

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    draft.defaults.retries = Some(0);
    let mut beside = Beside::None;
    let mut found = false;
    for document in documents {
        let methods = document.get("method_config").map(Node::items).unwrap_or_default();
        for method in methods {
            found = true;
            read_method(method, &mut draft);
        }
        if let Some(throttling) = document.get("retry_throttling") {
            found = true;
            beside = read_throttling(throttling, &mut draft);
            unread(
                throttling,
                &["max_tokens", "token_ratio"],
                "`retryThrottling`",
                &mut draft,
            );
        }
    }
    if !found {
        return Err(nothing_found("no `methodConfig` and no `retryThrottling`"));
    }
    Ok(Read { draft, beside })
}

fn read_method(config: &Node, draft: &mut Draft) {
    let mut service = Service::default();
    service.block("`methodConfig`", config.line);
    service.written("deadline", config.get("timeout"));
    service.written("hedge", config.get("hedging_policy"));
    for (key, own) in [
        ("maxRetries", "max_attempts"),
        ("initialDelay", "initial_backoff"),
        ("maxDelay", "max_backoff"),
        ("retryOn", "retryable_status_codes"),
        ("attemptTimeout", "per_attempt_recv_timeout"),
    ] {
        service.written(key, config.at(&["retry_policy", own]));
    }
    let timeout = span(config, "timeout", draft).filter(|timeout| !timeout.is_zero());
    service.deadline = Some(timeout);
    if let Some(policy) = config.get("retry_policy") {
        read_retries(policy, &mut service, draft);
    } else {
        service.retries = Some(0);
    }
    if let (Some(_), Some(hedging)) = (config.get("retry_policy"), config.get("hedging_policy")) {
        draft.lost(
            hedging.line,
            "gRPC refuses a method with both `retryPolicy` and `hedgingPolicy`: the retries are kept",
        );
        service.section("hedge", "off");
    } else if let Some(policy) = config.get("hedging_policy") {
        let most = whole(policy, "max_attempts", draft)
            .map_or(2, |(attempts, _)| attempts)
            .saturating_sub(1);
        let after = span(policy, "hedging_delay", draft).unwrap_or(Duration::from_millis(1));
        let after = after.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        service.section(
            "hedge",
            format!("{{after: {}, most: {}}}", units::written(after), most.clamp(1, 3)),
        );
        if most > 3 {
            draft.changed(policy.line, "a policy sends at most three hedges");
        }
        unread(
            policy,
            &["max_attempts", "hedging_delay"],
            "the hedging policy",
            draft,
        );
    } else {
        // The config of every method may hedge.
        service.section("hedge", "off");
    }
    let known = ["name", "timeout", "retry_policy", "hedging_policy"];
    unread(config, &known, "a method config", draft);
    for name in config.get("name").map(Node::items).unwrap_or_default() {
        let part = |key: &str| name.get(key).and_then(Node::text).unwrap_or_default();
        match (part("service"), part("method")) {
            ("", _) => {
                // The empty name is the default of every method.
                let sections = std::mem::take(&mut draft.defaults.sections);
                draft.defaults = service.clone();
                for (key, text) in sections {
                    if draft.defaults.sections.iter().all(|(known, _)| *known != key) {
                        draft.defaults.section(key, text);
                    }
                }
            }
            (known, "") => draft.merge(known, config.line, "method config", service.clone()),
            (known, method) => {
                draft.merge(
                    &format!("{known}/{method}"),
                    config.line,
                    "method config",
                    service.clone(),
                );
            }
        }
    }
}

fn read_retries(policy: &Node, service: &mut Service, draft: &mut Draft) {
    let (attempts, line) = whole(policy, "max_attempts", draft).unwrap_or((1, policy.line));
    if attempts < 2 {
        draft.lost(
            line,
            "gRPC refuses a retry policy whose `maxAttempts` is below 2: there are no retries",
        );
    }
    if attempts > MOST_ATTEMPTS {
        draft.changed(
            line,
            format!("gRPC makes at most {MOST_ATTEMPTS} attempts, and so does the policy"),
        );
    }
    service.retries = Some(attempts.min(MOST_ATTEMPTS).saturating_sub(1));
    service.initial = span(policy, "initial_backoff", draft);
    service.cap = span(policy, "max_backoff", draft);
    if let (Some(initial), Some(cap)) = (service.initial, service.cap) {
        // The cap holds from the first delay on.
        service.initial = Some(initial.min(cap));
    }
    service.multiplier = number(policy, "backoff_multiplier", draft).and_then(|(multiplier, line)| {
        if multiplier > 0.0 {
            return Some(multiplier);
        }
        draft.lost(line, "gRPC refuses a `backoffMultiplier` that is not above 0");
        None
    });
    // gRFC A6: every delay is multiplied by a factor between 0.8 and 1.2.
    service.jitter = Some(Jitter::Factor(0.2));
    service.attempt_timeout = span(policy, "per_attempt_recv_timeout", draft).map(Some);
    let mut retried = Signals::default();
    for code in policy
        .get("retryable_status_codes")
        .map(Node::items)
        .unwrap_or_default()
    {
        match code.text().and_then(signals::code) {
            Some(code) => {
                retried.codes.insert(code);
            }
            None => draft.lost(
                code.line,
                format!(
                    "`{}` is not a status code of gRPC",
                    code.text().unwrap_or("a list or an object")
                ),
            ),
        }
    }
    if retried.codes.contains("UNAVAILABLE") {
        // What the transport reports, and the HTTP statuses that gRPC reads as UNAVAILABLE.
        retried.statuses.extend([429, 502, 503, 504]);
        retried = retried.network(&["unreachable", "disconnected"]);
    }
    service.signals = Some(retried);
    let known = [
        "max_attempts",
        "initial_backoff",
        "max_backoff",
        "backoff_multiplier",
        "retryable_status_codes",
        "per_attempt_recv_timeout",
    ];
    unread(policy, &known, "the retry policy", draft);
}

/// Tokens: a failure takes one, a success gives `tokenRatio`, retries need more than half of them. As a quota: half of
/// the tokens, of which a retry takes one.
fn read_throttling(throttling: &Node, draft: &mut Draft) -> Beside {
    let most = number(throttling, "max_tokens", draft).map_or(0.0, |(most, _)| most);
    let ratio = number(throttling, "token_ratio", draft).map_or(0.0, |(ratio, _)| ratio);
    // gRPC reads no more than three digits after the point.
    if !(0.001..=1000.0).contains(&most) || ratio < 0.001 {
        draft.lost(
            throttling.line,
            "gRPC refuses this `retryThrottling`: `maxTokens` is above 0 and at most 1000, `tokenRatio` above 0",
        );
        return Beside::None;
    }
    let ratio = ratio.min(1000.0);
    let thousandths = |tokens: f64| -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a million"
        )]
        let whole = (tokens * 1000.0).round().clamp(0.0, 1e6) as u32;
        whole
    };
    draft.defaults.section(
        "budget",
        format!(
            "{{form: quota, capacity: {}, retryCost: 1000, timeoutCost: 1000, successGain: {}}}",
            thousandths(most / 2.0).max(1000),
            thousandths(ratio)
        ),
    );
    draft.defaults.written("budget", Some(throttling));
    draft.changed(
        throttling.line,
        "retry throttling takes a token for every failure, the policy's quota for every retry",
    );
    Beside::Tokens { most, gain: ratio }
}
