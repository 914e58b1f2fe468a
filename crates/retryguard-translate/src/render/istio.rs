//! Istio: a VirtualService and a DestinationRule for each service.

use std::sync::Arc;

use retryguard_policy::Service;
use serde_json::{Value, json};

use super::{Losses, View, millis, object_name, yaml};
use crate::{signals, units::protobuf};

pub(super) fn text(services: &[Arc<Service>], losses: &mut Losses) -> String {
    let mut documents = Vec::new();
    for (index, service) in services.iter().enumerate() {
        let view = View::of(service);
        view.common_losses(losses);
        view.no_retry_after(losses);
        let name = object_name(&service.name, index);
        documents.push(json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "VirtualService",
            "metadata": {"name": name},
            "spec": {"hosts": [service.name], "http": routes(&view, losses)},
        }));
        if let Some(policy) = traffic_policy(&view, losses) {
            documents.push(json!({
                "apiVersion": "networking.istio.io/v1",
                "kind": "DestinationRule",
                "metadata": {"name": name},
                "spec": {"host": service.name, "trafficPolicy": policy},
            }));
        }
    }
    documents.iter().map(yaml::text).collect::<Vec<_>>().join("---\n")
}

fn routes(view: &View<'_>, losses: &mut Losses) -> Vec<Value> {
    let mut route = json!({"route": [{"destination": {"host": view.service.name}}]});
    if let Some(deadline) = view.deadline {
        route["timeout"] = json!(protobuf(millis(deadline, view, losses)));
    }
    let mut plain = route.clone();
    // It must stand alone, and leaving it out would mean two retries.
    plain["retries"] = json!({"attempts": 0});
    if view.retries == 0 {
        return vec![plain];
    }
    route["retries"] = retries(view, losses);
    let Some(methods) = view.methods else {
        return vec![route];
    };
    route["match"] = json!([{"method": {"regex": methods.join("|")}}]);
    vec![route, plain]
}

fn retries(view: &View<'_>, losses: &mut Losses) -> Value {
    let (words, statuses, lost) = signals::to_envoy(&view.signals);
    for lost in lost {
        losses.add(view.service, lost);
    }
    view.backoff_losses(losses);
    // Istio takes statuses as words of their own.
    let mut words: Vec<String> = words
        .split(',')
        .filter(|word| !word.is_empty() && *word != "retriable-status-codes")
        .map(ToOwned::to_owned)
        .collect();
    words.extend(statuses.iter().map(ToString::to_string));
    let backoff = view.backoff();
    let base = millis(backoff.initial, view, losses);
    if backoff.cap != base.saturating_mul(10) {
        losses.add(view.service, "the delays grow to ten times the first one");
    }
    let mut retries = json!({
        "attempts": view.retries,
        "retryOn": words.join(","),
        "backoff": protobuf(base),
    });
    if let Some(timeout) = view.attempt_timeout {
        retries["perTryTimeout"] = json!(protobuf(millis(timeout, view, losses)));
    }
    retries
}

fn traffic_policy(view: &View<'_>, losses: &mut Losses) -> Option<Value> {
    let mut policy = json!({});
    if let Some(percent) = view.budget_percent(losses, 100.0) {
        if percent == 0.0 {
            losses.add(
                view.service,
                "a budget of 0 reads as unset there: write `maxRetries: 0` instead",
            );
        }
        view.budget_details(losses);
        policy["retryBudget"] = json!({"percent": percent, "minRetryConcurrency": 3});
    }
    if let Some(limit) = view.limit(losses) {
        policy["connectionPool"] = json!({"http": {"http2MaxRequests": limit}});
    }
    if let Some((failures, open, most)) = view.breaker(losses) {
        if open != most {
            losses.add(
                view.service,
                "a host stays out longer with every time, without `openForAtMost`",
            );
        }
        policy["outlierDetection"] = json!({
            "consecutive5xxErrors": failures,
            "baseEjectionTime": protobuf(millis(open, view, losses)),
            "maxEjectionPercent": 100,
        });
    }
    policy
        .as_object()
        .is_some_and(|policy| !policy.is_empty())
        .then_some(policy)
}
