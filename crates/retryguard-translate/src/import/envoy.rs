//! Envoy: routes with their retry policies, clusters with circuit breakers and outlier detection.
//!
//! A static configuration, a configuration dump or single resources: whatever a file is, it is searched for route
//! actions and clusters.

use std::{collections::BTreeMap, time::Duration};

use super::{Read, envoy_backoff, methods, nothing_found, number, outliers, span, statuses, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Service},
    signals,
    tree::Node,
    units,
};

/// Envoy's bound on concurrent retries of a cluster where none is set.
const MAX_RETRIES: u32 = 3;

const RETRY_KEYS: &[&str] = &[
    "retry_on",
    "num_retries",
    "per_try_timeout",
    "retriable_status_codes",
    "retry_back_off",
    "rate_limited_retry_back_off",
];

pub(super) fn is_it(document: &Node) -> bool {
    let keys = [
        "static_resources",
        "virtual_hosts",
        "route_config",
        "lb_policy",
        "retry_policy",
    ];
    keys.iter().any(|key| document.get(key).is_some())
        || document
            .maps()
            .iter()
            .any(|map| is_virtual_host(map) || is_cluster(map))
}

fn is_virtual_host(map: &Node) -> bool {
    map.get("routes").is_some() && map.get("domains").is_some()
}

fn is_cluster(map: &Node) -> bool {
    let parts = [
        "circuit_breakers",
        "outlier_detection",
        "load_assignment",
        "lb_policy",
        "eds_cluster_config",
    ];
    map.get("name").is_some() && parts.iter().any(|key| map.get(key).is_some())
}

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    draft.defaults.retries = Some(0);
    let maps: Vec<&Node> = documents.iter().flat_map(Node::maps).collect();
    for host in maps.iter().copied().filter(|map| is_virtual_host(map)) {
        for route in host.get("routes").map(Node::items).unwrap_or_default() {
            read_route(route, host, &mut draft);
        }
    }
    let mut bounds: BTreeMap<String, Bound> = BTreeMap::new();
    let clusters: Vec<&Node> = maps.iter().copied().filter(|map| is_cluster(map)).collect();
    for cluster in &clusters {
        read_cluster(cluster, &mut draft, &mut bounds);
    }
    for map in &maps {
        for layer in map.get("layers").map(Node::items).unwrap_or_default() {
            if let Some(layer) = layer.get("static_layer") {
                runtime("", layer, &mut draft);
            }
        }
    }
    if draft.services.is_empty() && clusters.is_empty() {
        return Err(nothing_found(
            "no route and no cluster: give a bootstrap, a configuration dump, or route and cluster resources",
        ));
    }
    let beside = beside(&mut draft, &bounds);
    Ok(Read { draft, beside })
}

/// The runtime keys that change retries or their bounds, written with dots or as blocks.
fn runtime(above: &str, layer: &Node, draft: &mut Draft) {
    const KEYS: [&str; 3] = [
        "upstream.use_retry",
        "upstream.base_retry_backoff_ms",
        "circuit_breakers.",
    ];
    for (key, line, value) in layer.entries() {
        let path = format!("{above}{key}");
        if !value.entries().is_empty() {
            runtime(&format!("{path}."), value, draft);
        } else if KEYS.iter().any(|key| path.starts_with(key)) {
            draft.lost(*line, format!("the runtime key `{path}` has no key in a policy"));
        }
    }
}

fn read_route(route: &Node, host: &Node, draft: &mut Draft) {
    let Some(action) = route.get("route") else {
        return;
    };
    let mut names: Vec<&str> = action.get("cluster").and_then(Node::text).into_iter().collect();
    let weighted = action
        .at(&["weighted_clusters", "clusters"])
        .map(Node::items)
        .unwrap_or_default();
    names.extend(weighted.iter().filter_map(|cluster| cluster.get("name")?.text()));
    if names.is_empty() {
        draft.lost(action.line, "a route whose cluster is chosen at run time");
        return;
    }
    let mut service = Service::default();
    service.block(format!("the route to `{}`", names.join("`, `")), action.line);
    service.written("deadline", action.get("timeout"));
    // Fifteen seconds where nothing is set; zero is without an end.
    let timeout = span(action, "timeout", draft).unwrap_or(Duration::from_secs(15));
    service.deadline = Some(Some(timeout).filter(|timeout| !timeout.is_zero()));
    match action.get("retry_policy").or_else(|| host.get("retry_policy")) {
        Some(policy) => read_retries(policy, &mut service, draft),
        None => service.retries = Some(0),
    }
    for key in [
        "retry_policy_typed_config",
        "internal_redirect_policy",
        "max_stream_duration",
        "idle_timeout",
        "request_mirror_policies",
    ] {
        if let Some(node) = action.get(key) {
            draft.lost(
                node.line,
                format!("`{}` has no key in a policy", action.spelt(key)),
            );
        }
    }
    if service.attempts() > 0 {
        service.methods = matched_methods(route);
    }
    if let Some(hedge) = action.get("hedge_policy").or_else(|| host.get("hedge_policy")) {
        read_hedge(hedge, &mut service, draft);
    }
    for name in names {
        draft.merge(name, action.line, "route", service.clone());
    }
}

/// The methods that a route matches, if it matches by method.
fn matched_methods(route: &Node) -> Option<Vec<String>> {
    let headers = route.at(&["match", "headers"])?.items();
    let header = headers
        .iter()
        .find(|header| header.get("name").and_then(Node::text) == Some(":method"))?;
    let matcher = header.get("string_match").unwrap_or(header);
    let words = matcher
        .get("exact")
        .or_else(|| matcher.get("exact_match"))
        .or_else(|| matcher.at(&["safe_regex", "regex"]))
        .or_else(|| matcher.at(&["safe_regex_match", "regex"]))?;
    methods(words.text()?)
}

/// A retry policy, into a service.
pub(super) fn read_retries(policy: &Node, service: &mut Service, draft: &mut Draft) {
    for (key, own) in [
        ("maxRetries", "num_retries"),
        ("attemptTimeout", "per_try_timeout"),
        ("retryOn", "retry_on"),
        ("gate", "rate_limited_retry_back_off"),
    ] {
        service.written(key, policy.get(own));
    }
    service.written("initialDelay", policy.at(&["retry_back_off", "base_interval"]));
    service.written("maxDelay", policy.at(&["retry_back_off", "max_interval"]));
    service.retries = Some(whole(policy, "num_retries", draft).map_or(1, |(retries, _)| retries));
    service.attempt_timeout = Some(span(policy, "per_try_timeout", draft).filter(|it| !it.is_zero()));
    let codes = statuses(policy, "retriable_status_codes", draft);
    let words = policy.get("retry_on");
    let text = words.and_then(Node::text).unwrap_or_default();
    let (signals, strange) = signals::envoy(text, &codes);
    let line = words.map_or(policy.line, |words| words.line);
    for word in strange {
        draft.lost(
            line,
            format!("the retry condition `{word}` has no word in a policy"),
        );
    }
    if text.contains("reset-before-request") {
        draft.changed(
            line,
            "`reset-before-request` is read as a connection that was never made",
        );
    }
    service.signals = Some(signals);
    let back_off = policy.get("retry_back_off");
    let base = back_off.and_then(|it| span(it, "base_interval", draft));
    let cap = back_off.and_then(|it| span(it, "max_interval", draft));
    if let (Some(node), Some(base), Some(cap)) = (back_off, base, cap)
        && cap < base
    {
        draft.changed(
            node.line,
            format!(
                "Envoy refuses a `max_interval` below the `base_interval`: {} is taken for both",
                units::written(base)
            ),
        );
    }
    envoy_backoff(service, base, cap);
    if let Some(limited) = policy.get("rate_limited_retry_back_off") {
        let at_most = span(limited, "max_interval", draft).unwrap_or(Duration::from_secs(300));
        let at_most = at_most.min(Duration::from_secs(3600));
        service.section(
            "gate",
            format!("{{scope: call, atMost: {}}}", units::written(at_most)),
        );
        draft.changed(
            limited.line,
            "the headers of `rate_limited_retry_back_off` are read as Retry-After, by the call that met it",
        );
    }
    unread(policy, RETRY_KEYS, "the retry policy", draft);
}

fn read_hedge(hedge: &Node, service: &mut Service, draft: &mut Draft) {
    let on = hedge.get("hedge_on_per_try_timeout").and_then(Node::flag) == Some(true);
    if let (true, Some(Some(after))) = (on, service.attempt_timeout) {
        let after = after.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        service.section("hedge", format!("{{after: {}, most: 1}}", units::written(after)));
        service.written("hedge", Some(hedge));
        service.attempt_timeout = Some(None);
        draft.changed(
            hedge.line,
            "a hedge on the per-try timeout: the policy hedges once and gives an attempt no timeout of its own",
        );
    }
    unread(hedge, &["hedge_on_per_try_timeout"], "the hedge policy", draft);
}

/// How many retries to a cluster may run at the same time.
#[derive(Clone, Copy)]
struct Bound {
    /// A share of the active requests.
    share: f64,
    /// At the least.
    least: u32,
    /// Where it is set, or where the cluster begins.
    line: u32,
}

impl Bound {
    /// Envoy's own, for a cluster that sets none.
    const fn usual(line: u32) -> Self {
        Self {
            share: 0.0,
            least: MAX_RETRIES,
            line,
        }
    }
}

fn read_cluster(cluster: &Node, draft: &mut Draft, bounds: &mut BTreeMap<String, Bound>) {
    let Some(name) = cluster.get("name").and_then(Node::text) else {
        return;
    };
    let mut parts = Service::default();
    parts.block(format!("cluster `{name}`"), cluster.line);
    let mut maps = cluster.maps().into_iter();
    if let Some(policy) = maps.find_map(|map| map.get("retry_policy")) {
        read_retries(policy, &mut parts, draft);
    }
    let thresholds = cluster
        .at(&["circuit_breakers", "thresholds"])
        .map(Node::items)
        .unwrap_or_default();
    if let Some(node) = cluster.at(&["circuit_breakers", "per_host_thresholds"]) {
        draft.lost(
            node.line,
            "thresholds of single hosts: a policy bounds the target as a whole",
        );
    }
    let mut bound = Bound::usual(cluster.line);
    for threshold in thresholds {
        let priority = threshold
            .get("priority")
            .and_then(Node::text)
            .unwrap_or("DEFAULT");
        if priority != "DEFAULT" {
            draft.lost(
                threshold.line,
                format!("the thresholds of the priority {priority}"),
            );
            continue;
        }
        if let Some((most, _)) = whole(threshold, "max_requests", draft) {
            parts.section("bulkhead", format!("{{limit: {}}}", most.clamp(1, 1_000_000)));
        }
        for key in ["max_connections", "max_pending_requests", "max_connection_pools"] {
            if let Some(node) = threshold.get(key) {
                let key = threshold.spelt(key);
                draft.lost(
                    node.line,
                    format!("`{key}` bounds connections, which a policy does not"),
                );
            }
        }
        if let Some((least, line)) = whole(threshold, "max_retries", draft) {
            bound = Bound {
                share: 0.0,
                least,
                line,
            };
        }
        if let Some(budget) = threshold.get("retry_budget") {
            let (share, least) = read_budget(budget, &mut parts, draft);
            let line = budget.line;
            bound = Bound { share, least, line };
        }
    }
    bounds.insert(name.to_owned(), bound);
    if let Some(detection) = cluster.get("outlier_detection") {
        // The share of the detections that lead to an ejection: all for every 5xx, none for gateway errors alone.
        let enforced = |key: &str, usual: u32, draft: &mut Draft| {
            whole(detection, key, draft).map_or(usual, |(percent, _)| percent) > 0
        };
        let mut failures = Vec::new();
        if enforced("enforcing_consecutive_5xx", 100, draft) {
            failures.push(("consecutive_5xx", Some(5)));
        }
        if enforced("enforcing_consecutive_gateway_failure", 0, draft) {
            failures.push(("consecutive_gateway_failure", Some(5)));
        }
        outliers(&mut parts, detection, &failures, "max_ejection_percent", draft);
    }
    draft.from(name, cluster.line);
    let service = draft.service(name);
    if parts.retries.is_some() && service.retries.is_none_or(|retries| retries == 0) {
        let deadline = service.deadline;
        *service = Service {
            deadline: deadline.or(parts.deadline),
            ..parts.clone()
        };
    }
    service.places.join(&parts.places);
    for (key, text) in parts.sections {
        service.section(key, text);
    }
}

/// Envoy's budget bounds concurrent retries by the active requests; the policy's bounds their number by the first
/// attempts of an interval. Gives the concurrent one for what can simulate it.
pub(super) fn read_budget(budget: &Node, service: &mut Service, draft: &mut Draft) -> (f64, u32) {
    let percent = number(budget, "budget_percent", draft).or_else(|| number(budget, "percent", draft));
    let percent = percent.map_or(20.0, |(percent, _)| percent).clamp(0.0, 1000.0);
    let least = whole(budget, "min_retry_concurrency", draft).map_or(MAX_RETRIES, |(least, _)| least);
    service.section("budget", format!("{{percent: {percent}%}}"));
    service.written("budget", Some(budget));
    draft.changed(
        budget.line,
        format!(
            "the retry budget of {percent} % of the active requests, at least {least} at once, becomes {percent} % of \
             the first attempts of ten seconds"
        ),
    );
    (percent / 100.0, least)
}

/// The bound on concurrent retries, if all clusters have the same: a simulator has one for all targets.
fn beside(draft: &mut Draft, bounds: &BTreeMap<String, Bound>) -> Beside {
    let retrying: Vec<String> = draft
        .services
        .iter()
        .filter(|(_, service)| service.attempts() > 0)
        .map(|(name, _)| name.clone())
        .collect();
    let found: Vec<Bound> = retrying
        .iter()
        .map(|name| {
            let route = draft.sources.get(name).copied().unwrap_or(1);
            bounds.get(name).copied().unwrap_or(Bound::usual(route))
        })
        .collect();
    for (name, bound) in retrying.iter().zip(&found) {
        if bound.share == 0.0 {
            let what = super::concurrent("max_retries", bound.least);
            draft.lost(bound.line, format!("`{name}`: {what}"));
        }
    }
    let same = |one: &Bound, other: &Bound| one.share == other.share && one.least == other.least;
    match found.as_slice() {
        [] => Beside::None,
        [first, rest @ ..] => match rest.iter().find(|other| !same(first, other)) {
            None => Beside::ConcurrentRetries {
                share: first.share,
                least: first.least,
            },
            Some(other) => {
                draft.lost(
                    other.line,
                    "the clusters bound concurrent retries differently: a simulation has no such bound",
                );
                Beside::None
            }
        },
    }
}
