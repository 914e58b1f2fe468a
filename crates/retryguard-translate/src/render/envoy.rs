//! Envoy: a bootstrap that `envoy --mode validate` accepts, with a route and a cluster for each service.

use std::{sync::Arc, time::Duration};

use retryguard_policy::Service;
use serde_json::{Value, json};

use super::{Losses, View, yaml};
use crate::{signals, units::protobuf};

/// Where the listener of the rendered file is; change it to yours.
const PORT: u16 = 10_000;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

pub(super) fn text(services: &[Arc<Service>], losses: &mut Losses) -> String {
    let views: Vec<View<'_>> = services.iter().map(|service| View::of(service)).collect();
    let mut hosts = Vec::new();
    let mut clusters = Vec::new();
    for (index, view) in views.iter().enumerate() {
        let host = host_name(&view.service.name, index);
        view.common_losses(losses);
        hosts.push(json!({
            "name": view.service.name,
            "domains": [host],
            "routes": routes(view, losses),
        }));
        clusters.push(cluster(view, &host, losses));
    }
    let manager = json!({
        "@type": MANAGER,
        "stat_prefix": "retryguard",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}],
        "route_config": {"name": "retryguard", "virtual_hosts": hosts},
    });
    yaml::text(&json!({
        "static_resources": {
            "listeners": [{
                "name": "retryguard",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": PORT}},
                "filter_chains": [{
                    "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
                }],
            }],
            "clusters": clusters,
        },
    }))
}

/// A host name for a service: what cannot stand in one becomes a dash, and the index keeps names apart.
fn host_name(name: &str, index: usize) -> String {
    let plain: String = name
        .chars()
        .map(|letter| {
            let fits = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
            if fits { letter } else { '-' }
        })
        .collect();
    if plain == name {
        plain
    } else {
        format!("{plain}-{index}")
    }
}

/// One route; where only some methods are retried, one for them and one for the rest.
fn routes(view: &View<'_>, losses: &mut Losses) -> Vec<Value> {
    let mut action = json!({
        "cluster": view.service.name,
        // Zero is without an end; leaving it out is fifteen seconds.
        "timeout": protobuf(view.deadline.unwrap_or(Duration::ZERO)),
    });
    let plain = json!({"match": {"prefix": "/"}, "route": action});
    if view.retries == 0 {
        return vec![plain];
    }
    action["retry_policy"] = retry_policy(view, losses);
    let Some(methods) = view.methods else {
        return vec![json!({"match": {"prefix": "/"}, "route": action})];
    };
    let header = json!({"name": ":method", "string_match": {"safe_regex": {"regex": methods.join("|")}}});
    vec![
        json!({"match": {"prefix": "/", "headers": [header]}, "route": action}),
        plain,
    ]
}

fn retry_policy(view: &View<'_>, losses: &mut Losses) -> Value {
    let (words, statuses, lost) = signals::to_envoy(&view.signals);
    for lost in lost {
        losses.add(view.service, lost);
    }
    view.backoff_losses(losses);
    let mut policy = json!({"retry_on": words, "num_retries": view.retries});
    if !statuses.is_empty() {
        policy["retriable_status_codes"] = json!(statuses);
    }
    if let Some(timeout) = view.attempt_timeout {
        policy["per_try_timeout"] = json!(protobuf(timeout));
    }
    let backoff = view.backoff();
    // Envoy waits at least a millisecond, and its cap is not below the base.
    let base = backoff.initial.max(Duration::from_millis(1));
    if base != backoff.initial {
        losses.add(view.service, "the first delay is at least 1 ms");
    }
    policy["retry_back_off"] = json!({
        "base_interval": protobuf(base),
        "max_interval": protobuf(backoff.cap.max(base)),
    });
    if let Some(at_most) = view.retry_after(losses) {
        policy["rate_limited_retry_back_off"] = json!({
            "reset_headers": [{"name": "retry-after", "format": "SECONDS"}],
            "max_interval": protobuf(at_most),
        });
    }
    policy
}

fn cluster(view: &View<'_>, host: &str, losses: &mut Losses) -> Value {
    let mut threshold = json!({});
    if view.retries > 0 {
        match view.budget_percent(losses, 100.0) {
            Some(percent) => {
                view.budget_details(losses);
                threshold["retry_budget"] =
                    json!({"budget_percent": {"value": percent}, "min_retry_concurrency": 3});
            }
            // Three at once is what Envoy takes where nothing is set.
            None => threshold["max_retries"] = json!(u32::MAX),
        }
    }
    if let Some(limit) = view.limit(losses) {
        threshold["max_requests"] = json!(limit);
    }
    let endpoint = json!({"endpoint": {"address": {"socket_address": {"address": host, "port_value": 80}}}});
    let mut cluster = json!({
        "name": view.service.name,
        "type": "STRICT_DNS",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": view.service.name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    });
    if threshold
        .as_object()
        .is_some_and(|threshold| !threshold.is_empty())
    {
        cluster["circuit_breakers"] = json!({"thresholds": [threshold]});
    }
    if let Some((failures, open, most)) = view.breaker(losses) {
        cluster["outlier_detection"] = json!({
            "consecutive_5xx": failures,
            "base_ejection_time": protobuf(open),
            "max_ejection_time": protobuf(most.max(open)),
            "max_ejection_percent": 100,
        });
        // Without this, a cluster whose hosts are mostly out would send to all of them again.
        cluster["common_lb_config"] = json!({"healthy_panic_threshold": {"value": 0.0}});
    }
    cluster
}
