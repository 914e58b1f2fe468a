//! Istio: VirtualService and DestinationRule.

use std::time::Duration;

use super::{Read, envoy::read_budget, envoy_backoff, methods, nothing_found, outliers, span, unread, whole};
use crate::{
    Beside, Refused,
    draft::{Draft, Service},
    signals,
    tree::Node,
};

/// What Istio retries on where nothing else is said.
pub(crate) const DEFAULT_RETRY_ON: &str =
    "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";

/// How often.
pub(crate) const DEFAULT_ATTEMPTS: u32 = 2;

pub(super) fn read(documents: &[Node]) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    // What a service without a VirtualService gets.
    retries(None, &mut Service::default(), &mut draft);
    let mut defaults = Service::default();
    retries(None, &mut defaults, &mut draft);
    draft.defaults = Service {
        deadline: draft.defaults.deadline,
        sections: std::mem::take(&mut draft.defaults.sections),
        ..defaults
    };
    let mut found = false;
    for document in documents {
        let spec = document.get("spec").unwrap_or(document);
        match document.get("kind").and_then(Node::text) {
            Some("VirtualService") => {
                found = true;
                virtual_service(&titled(document), spec, &mut draft);
            }
            Some("DestinationRule") => found = true,
            Some(kind) => draft.lost(document.line, format!("a {kind} says nothing about retries")),
            None => {}
        }
    }
    let mut bound = None;
    // Rules come after the routes, so that a name is the one that the routes use.
    for document in documents {
        if document.get("kind").and_then(Node::text) == Some("DestinationRule") {
            let spec = document.get("spec").unwrap_or(document);
            destination_rule(&titled(document), spec, &mut draft, &mut bound);
        }
    }
    if !found {
        return Err(nothing_found("no VirtualService and no DestinationRule"));
    }
    // Without a bound of its own, Istio lets as many retries wait as there are.
    let beside = bound.map_or(Beside::None, |(share, least)| Beside::ConcurrentRetries {
        share,
        least,
    });
    Ok(Read { draft, beside })
}

/// Kind and name of an object.
pub(super) fn titled(document: &Node) -> String {
    let kind = document.get("kind").and_then(Node::text).unwrap_or("the file");
    match document.at(&["metadata", "name"]).and_then(Node::text) {
        Some(name) => format!("{kind} `{name}`"),
        None => kind.to_owned(),
    }
}

fn virtual_service(title: &str, spec: &Node, draft: &mut Draft) {
    let hosts = spec.get("hosts").map(Node::items).unwrap_or_default();
    for route in spec.get("http").map(Node::items).unwrap_or_default() {
        if route
            .get("redirect")
            .or_else(|| route.get("direct_response"))
            .is_some()
        {
            // The proxy answers by itself.
            continue;
        }
        if let Some(delegate) = route.get("delegate") {
            draft.lost(
                delegate.line,
                "the routes of another VirtualService: import its file as well",
            );
            continue;
        }
        let mut service = Service::default();
        service.block(title, route.line);
        // Istio's routes have no timeout unless one is set.
        let timeout = span(route, "timeout", draft).filter(|timeout| !timeout.is_zero());
        service.deadline = Some(timeout);
        service.written("deadline", route.get("timeout"));
        retries(route.get("retries"), &mut service, draft);
        if service.attempts() > 0 {
            service.methods = matched_methods(route);
        }
        for key in ["fault", "mirror", "mirrors"] {
            if let Some(node) = route.get(key) {
                draft.lost(node.line, format!("`{key}` of a route has no key in a policy"));
            }
        }
        let destinations = route.get("route").map(Node::items).unwrap_or_default();
        let mut names: Vec<&str> = destinations
            .iter()
            .filter_map(|destination| destination.at(&["destination", "host"])?.text())
            .collect();
        if names.is_empty() {
            names = hosts.iter().filter_map(Node::text).take(1).collect();
        }
        for name in names {
            draft.merge(name, route.line, "route", service.clone());
        }
    }
    for key in ["tcp", "tls"] {
        if let Some(node) = spec.get(key) {
            draft.lost(node.line, format!("`{key}` routes are not retried"));
        }
    }
}

/// The methods that a route matches, if every match of it names them.
fn matched_methods(route: &Node) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for matched in route.get("match")?.items() {
        let method = matched.get("method")?;
        let words = method.get("exact").or_else(|| method.get("regex"))?;
        all.extend(methods(words.text()?)?);
    }
    (!all.is_empty()).then_some(all)
}

/// The retries of a route; Istio's own where it says nothing.
fn retries(node: Option<&Node>, service: &mut Service, draft: &mut Draft) {
    let Some(node) = node else {
        service.retries = Some(DEFAULT_ATTEMPTS);
        service.signals = Some(signals::envoy(DEFAULT_RETRY_ON, &[]).0);
        envoy_backoff(service, None, None);
        return;
    };
    for (key, own) in [
        ("maxRetries", "attempts"),
        ("attemptTimeout", "per_try_timeout"),
        ("retryOn", "retry_on"),
        ("initialDelay", "backoff"),
    ] {
        service.written(key, node.get(own));
    }
    let attempts = whole(node, "attempts", draft);
    service.retries = Some(attempts.map_or(0, |(attempts, _)| attempts));
    if node.get("attempts").is_none_or(Node::is_nothing) {
        draft.changed(
            node.line,
            "`retries` without `attempts` switches retries off in Istio, and so does the policy",
        );
    }
    service.attempt_timeout = Some(span(node, "per_try_timeout", draft).filter(|it| !it.is_zero()));
    let words = node.get("retry_on");
    let text = words.and_then(Node::text).filter(|text| !text.is_empty());
    let (signals, strange) = signals::envoy(text.unwrap_or(DEFAULT_RETRY_ON), &[]);
    for word in strange {
        let line = words.map_or(node.line, |words| words.line);
        draft.lost(
            line,
            format!("the retry condition `{word}` has no word in a policy"),
        );
    }
    service.signals = Some(signals);
    let base = span(node, "backoff", draft);
    envoy_backoff(service, base, None);
    unread(
        node,
        &["attempts", "per_try_timeout", "retry_on", "backoff"],
        "`retries`",
        draft,
    );
}

fn destination_rule(title: &str, spec: &Node, draft: &mut Draft, bound: &mut Option<(f64, u32)>) {
    let Some(host) = spec.get("host").and_then(Node::text) else {
        return;
    };
    for subset in spec.get("subsets").map(Node::items).unwrap_or_default() {
        if let Some(policy) = subset.get("traffic_policy") {
            draft.lost(
                policy.line,
                "the traffic policy of a subset: a policy has one block a service",
            );
        }
    }
    let Some(policy) = spec.get("traffic_policy") else {
        return;
    };
    for setting in policy
        .get("port_level_settings")
        .map(Node::items)
        .unwrap_or_default()
    {
        draft.lost(
            setting.line,
            "settings of a port: a policy has one block a service",
        );
    }
    let known = [
        "load_balancer",
        "connection_pool",
        "outlier_detection",
        "retry_budget",
        "tls",
        "port_level_settings",
        "tunnel",
        "proxy_protocol",
    ];
    unread(policy, &known, "`trafficPolicy`", draft);
    let mut parts = Service::default();
    parts.block(title, policy.line);
    if let Some(tcp) = policy.at(&["connection_pool", "tcp"]) {
        if let Some(node) = tcp.get("max_connections") {
            let key = tcp.spelt("max_connections");
            draft.lost(
                node.line,
                format!("`{key}` bounds connections, which a policy does not"),
            );
        }
        unread(tcp, &["max_connections"], "`connectionPool.tcp`", draft);
    }
    if let Some(http) = policy.at(&["connection_pool", "http"]) {
        if let Some((most, _)) = whole(http, "http2_max_requests", draft).filter(|(most, _)| *most > 0) {
            parts.section("bulkhead", format!("{{limit: {}}}", most.min(1_000_000)));
        }
        match whole(http, "max_retries", draft) {
            Some((0, line)) => draft.changed(
                line,
                "`maxRetries: 0` does not switch retries off in Istio: zero reads as unset, which is 4294967295",
            ),
            Some((most, line)) => {
                *bound = Some((0.0, most));
                draft.lost(line, super::concurrent(http.spelt("max_retries"), most));
            }
            None => {}
        }
        let connections = [
            "http1_max_pending_requests",
            "max_requests_per_connection",
            "max_concurrent_streams",
        ];
        let known = [&["http2_max_requests", "max_retries"][..], &connections].concat();
        unread(http, &known, "`connectionPool.http`", draft);
        for key in connections {
            if let Some(node) = http.get(key) {
                let key = http.spelt(key);
                draft.lost(
                    node.line,
                    format!("`{key}` bounds connections, which a policy does not"),
                );
            }
        }
    }
    if let Some(budget) = policy.get("retry_budget") {
        *bound = Some(read_budget(budget, &mut parts, draft));
    }
    if let Some(detection) = policy.get("outlier_detection") {
        let failures = [
            ("consecutive_5xx_errors", Some(5)),
            ("consecutive_gateway_errors", None),
        ];
        outliers(&mut parts, detection, &failures, "max_ejection_percent", draft);
    }
    if let Some(domain) = host.strip_prefix('*') {
        draft.changed(
            host_line(spec),
            format!(
                "the rule holds for every host that ends in `{domain}`: its settings stand at `{host}`, and no other service has them"
            ),
        );
    }
    let name = known_name(host, draft).unwrap_or_else(|| host.to_owned());
    let known = draft.services.iter().any(|(known, _)| *known == name);
    draft.from(&name, spec.line);
    let service = draft.service(&name);
    if !known {
        service.deadline = Some(None::<Duration>);
    }
    service.places.join(&parts.places);
    for (key, text) in parts.sections {
        service.section(key, text);
    }
}

/// The line of a rule's host.
fn host_line(spec: &Node) -> u32 {
    spec.get("host").map_or(spec.line, |host| host.line)
}

/// The name by which the routes call this host: `reviews`, `reviews.shop` and `reviews.shop.svc.cluster.local` are one,
/// as long as no two of the routes' own names are.
fn known_name(host: &str, draft: &Draft) -> Option<String> {
    let names = draft.services.iter().map(|(name, _)| name);
    let mut same = names.filter(|name| {
        let (long, short) = if name.len() > host.len() {
            (name.as_str(), host)
        } else {
            (host, name.as_str())
        };
        long == short || long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
    });
    same.next().cloned()
}
