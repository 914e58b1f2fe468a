//! The Gateway API: retries and timeouts of HTTPRoute, and the retry budget of XBackendTrafficPolicy.

use std::time::Duration;

use super::{Read, envoy_backoff, istio::titled, nothing_found, span, statuses, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Service},
    signals::Signals,
    tree::Node,
    units,
};

/// What most implementations retry where a route lists no codes: the gateway's own errors.
const USUAL_CODES: [u16; 4] = [500, 502, 503, 504];

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    draft.defaults.retries = Some(0);
    let mut found = false;
    for document in documents {
        let spec = document.get("spec").unwrap_or(document);
        match document.get("kind").and_then(Node::text) {
            Some("HTTPRoute") => {
                found = true;
                for rule in spec.get("rules").map(Node::items).unwrap_or_default() {
                    read_rule(&titled(document), rule, &mut draft);
                }
            }
            Some("XBackendTrafficPolicy" | "BackendTrafficPolicy") => {
                found = true;
                read_budget(spec, &mut draft);
            }
            Some(kind) => draft.lost(document.line, format!("a {kind} says nothing about retries")),
            None => {}
        }
    }
    if !found {
        return Err(nothing_found("no HTTPRoute and no XBackendTrafficPolicy"));
    }
    Ok(Read {
        draft,
        beside: Beside::None,
    })
}

fn read_rule(title: &str, rule: &Node, draft: &mut Draft) {
    let mut service = Service::default();
    service.block(title, rule.line);
    for (key, path) in [
        ("maxRetries", ["retry", "attempts"]),
        ("retryOn", ["retry", "codes"]),
        ("initialDelay", ["retry", "backoff"]),
        ("deadline", ["timeouts", "request"]),
        ("attemptTimeout", ["timeouts", "backend_request"]),
    ] {
        service.written(key, rule.at(&path));
    }
    if let Some(timeouts) = rule.get("timeouts") {
        let request = span(timeouts, "request", draft).filter(|it| !it.is_zero());
        let backend = span(timeouts, "backend_request", draft).filter(|it| !it.is_zero());
        service.deadline = Some(request);
        service.attempt_timeout = Some(backend);
        unread(timeouts, &["request", "backend_request"], "`timeouts`", draft);
    } else {
        service.deadline = Some(None);
    }
    match rule.get("retry") {
        None => service.retries = Some(0),
        Some(retry) => read_retry(retry, &mut service, draft),
    }
    if service.attempts() > 0 {
        service.methods = matched_methods(rule);
    }
    for filter in rule.get("filters").map(Node::items).unwrap_or_default() {
        if let Some(mirror) = filter.get("request_mirror") {
            draft.lost(mirror.line, "`requestMirror` of a rule has no key in a policy");
        }
    }
    if let Some(node) = rule.get("session_persistence") {
        draft.lost(node.line, "`sessionPersistence` has no key in a policy");
    }
    let backends = rule.get("backend_refs").map(Node::items).unwrap_or_default();
    let names = backends.iter().filter_map(|backend| backend.get("name")?.text());
    for name in names {
        draft.merge(name, rule.line, "rule", service.clone());
    }
}

/// The methods that a rule matches, if every match of it names one.
fn matched_methods(rule: &Node) -> Option<Vec<String>> {
    let matches = rule.get("matches")?.items();
    let methods: Option<Vec<String>> = matches
        .iter()
        .map(|matched| Some(matched.get("method")?.text()?.to_owned()))
        .collect();
    methods.filter(|methods| !methods.is_empty())
}

fn read_retry(retry: &Node, service: &mut Service, draft: &mut Draft) {
    let attempts = whole(retry, "attempts", draft);
    service.retries = Some(attempts.map_or(1, |(attempts, _)| attempts));
    if retry.get("attempts").is_none_or(Node::is_nothing) {
        draft.changed(
            retry.line,
            "`retry` without `attempts` leaves the number to the implementation: one is taken",
        );
    }
    let mut signals = Signals::default().network(&["unreachable", "disconnected", "timeout"]);
    let listed = statuses(retry, "codes", draft);
    if retry.get("codes").is_none_or(|codes| codes.items().is_empty()) {
        draft.changed(
            retry.line,
            "`retry` without `codes` leaves them to the implementation: 500, 502, 503 and 504 are taken",
        );
        signals.statuses.extend(USUAL_CODES);
    }
    signals.statuses.extend(listed);
    service.signals = Some(signals);
    let base = span(retry, "backoff", draft);
    envoy_backoff(service, base, None);
    if base.is_some() {
        draft.changed(
            retry.line,
            "`backoff` is the least wait; its growth and jitter are the implementation's, and Envoy's are taken",
        );
    }
    unread(retry, &["attempts", "codes", "backoff"], "`retry`", draft);
}

fn read_budget(spec: &Node, draft: &mut Draft) {
    let targets = spec.get("target_refs").map(Node::items).unwrap_or_default();
    let names: Vec<String> = targets
        .iter()
        .filter_map(|target| Some(target.get("name")?.text()?.to_owned()))
        .collect();
    let Some(constraint) = spec.get("retry_constraint") else {
        return;
    };
    unread(
        constraint,
        &["budget", "min_retry_rate"],
        "`retryConstraint`",
        draft,
    );
    let budget = constraint.get("budget");
    let percent = budget
        .and_then(|budget| budget.get("percent"))
        .and_then(Node::number)
        .unwrap_or(20.0)
        .clamp(0.0, 100.0);
    let window = budget
        .and_then(|budget| span(budget, "interval", draft))
        .unwrap_or(Duration::from_secs(10));
    let rate = constraint.get("min_retry_rate");
    let count = rate
        .and_then(|rate| whole(rate, "count", draft))
        .map_or(10, |(count, _)| count);
    let every = rate
        .and_then(|rate| span(rate, "interval", draft))
        .unwrap_or(Duration::from_secs(1));
    let bounded =
        |span: Duration| units::written(span.clamp(Duration::from_millis(100), Duration::from_secs(3600)));
    let text = format!(
        "{{percent: {percent}%, interval: {}, minRetryRate: {{count: {}, interval: {}}}}}",
        bounded(window),
        count.min(1_000_000),
        bounded(every)
    );
    for name in names {
        let service = draft.service(&name);
        service.section("budget", text.clone());
        service.written("budget", Some(constraint));
        if service.deadline.is_none() {
            service.deadline = Some(None);
        }
    }
    if let Some(node) = spec.get("session_persistence") {
        draft.lost(node.line, "`sessionPersistence` has no key in a policy");
    }
}
