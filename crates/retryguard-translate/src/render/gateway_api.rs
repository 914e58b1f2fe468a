//! The Gateway API: an HTTPRoute and, for the budget, an XBackendTrafficPolicy for each service.

use std::{sync::Arc, time::Duration};

use retryguard_core::budget;
use retryguard_policy::Service;
use serde_json::{Value, json};

use super::{Losses, View, millis, object_name, yaml};

/// Backends of the kind Service need a port; change it to yours.
const PORT: u16 = 80;

pub(super) fn text(services: &[Arc<Service>], losses: &mut Losses) -> String {
    let mut documents = Vec::new();
    for (index, service) in services.iter().enumerate() {
        let view = View::of(service);
        view.common_losses(losses);
        view.no_retry_after(losses);
        let name = object_name(&service.name, index);
        if name != service.name {
            losses.add(
                service,
                format!("the Service is called `{name}`: a Kubernetes name is narrower"),
            );
        }
        if service.target.breaker.is_some() {
            losses.add(service, "the breaker");
        }
        if service.target.bulkhead.is_some() {
            losses.add(service, "the bulkhead");
        }
        documents.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": name},
            "spec": {
                "parentRefs": [{"group": "", "kind": "Service", "name": name}],
                "rules": rules(&view, &name, losses),
            },
        }));
        if let Some(constraint) = constraint(&view, losses) {
            documents.push(json!({
                "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
                "kind": "XBackendTrafficPolicy",
                "metadata": {"name": name},
                "spec": {
                    "targetRefs": [{"group": "", "kind": "Service", "name": name}],
                    "retryConstraint": constraint,
                },
            }));
        }
    }
    documents.iter().map(yaml::text).collect::<Vec<_>>().join("---\n")
}

fn rules(view: &View<'_>, name: &str, losses: &mut Losses) -> Vec<Value> {
    let mut rule = json!({"backendRefs": [{"name": name, "port": PORT}]});
    let mut timeouts = json!({});
    if let Some(deadline) = view.deadline {
        timeouts["request"] = json!(duration(deadline, view, losses));
    }
    if let Some(timeout) = view.attempt_timeout {
        // The API server refuses a backend timeout that is longer than the request's.
        let timeout = view.deadline.map_or(timeout, |deadline| timeout.min(deadline));
        timeouts["backendRequest"] = json!(duration(timeout, view, losses));
    }
    if timeouts.as_object().is_some_and(|timeouts| !timeouts.is_empty()) {
        rule["timeouts"] = timeouts;
    }
    if view.retries == 0 {
        return vec![rule];
    }
    let plain = rule.clone();
    rule["retry"] = retry(view, losses);
    let Some(methods) = view.methods else {
        return vec![rule];
    };
    let matches: Vec<Value> = methods.iter().map(|method| json!({"method": method})).collect();
    rule["matches"] = json!(matches);
    vec![rule, plain]
}

fn retry(view: &View<'_>, losses: &mut Losses) -> Value {
    let signals = &view.signals;
    let mut codes: Vec<u16> = signals.statuses.iter().copied().collect();
    if signals.all_5xx {
        codes.extend([500, 502, 503, 504]);
        losses.add(view.service, "of all 5xx, only 500, 502, 503 and 504 are listed");
    }
    codes.sort_unstable();
    codes.dedup();
    if !signals.codes.is_empty() {
        losses.add(view.service, "gRPC codes are not read: HTTPRoute knows statuses");
    }
    if signals.network.len() < 3 {
        losses.add(view.service, "every failure of the network is retried");
    }
    view.backoff_losses(losses);
    let backoff = view.backoff();
    if backoff.cap != backoff.initial.saturating_mul(10) {
        losses.add(
            view.service,
            "`maxDelay`: growth and cap are the implementation's",
        );
    }
    let mut retry = json!({
        "attempts": view.retries,
        "backoff": duration(backoff.initial, view, losses),
    });
    if !codes.is_empty() {
        retry["codes"] = json!(codes);
    } else {
        losses.add(
            view.service,
            "without a code, the implementation's own are retried",
        );
    }
    retry
}

fn constraint(view: &View<'_>, losses: &mut Losses) -> Option<Value> {
    let percent = view.budget_percent(losses, 100.0)?;
    let whole = percent.round();
    if whole != percent {
        losses.add(view.service, format!("a budget of {percent} % becomes {whole} %"));
    }
    let mut constraint = json!({"budget": {"percent": whole}});
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole percentage up to 100"
    )]
    let number = whole as u32;
    constraint["budget"]["percent"] = json!(number);
    if let Some(budget::Settings::Ratio { window, reserve, .. }) = view.service.target.budget {
        // The API server refuses a shorter one.
        let interval = window.max(Duration::from_secs(1));
        if interval != window {
            losses.add(view.service, "the budget's interval becomes 1s");
        }
        constraint["budget"]["interval"] = json!(duration(interval, view, losses));
        let rate = reserve.per_second.as_f64();
        if reserve.most == 0 || rate <= 0.0 {
            losses.add(view.service, "a minimum rate of 0 becomes one retry an hour");
            constraint["minRetryRate"] = json!({"count": 1, "interval": "1h"});
        } else {
            // `most` retries in the interval that the rate needs for them.
            let interval = Duration::from_secs_f64((f64::from(reserve.most) / rate).clamp(0.001, 3600.0));
            let interval = Duration::from_millis(u64::try_from(interval.as_millis()).unwrap_or(1000).max(1));
            constraint["minRetryRate"] =
                json!({"count": reserve.most, "interval": duration(interval, view, losses)});
        }
    }
    Some(constraint)
}

/// GEP-2257: up to four numbers of up to five digits, in h, m, s and ms.
fn duration(span: Duration, view: &View<'_>, losses: &mut Losses) -> String {
    let total = millis(span, view, losses).as_millis();
    let (hours, rest) = (total / 3_600_000, total % 3_600_000);
    let (minutes, rest) = (rest / 60_000, rest % 60_000);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let parts = [(hours, "h"), (minutes, "m"), (seconds, "s"), (millis, "ms")];
    parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect()
}
