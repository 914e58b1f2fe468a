//! A gRPC service config.

use std::{sync::Arc, time::Duration};

use retryguard_core::{
    backoff::{Growth, Jitter},
    budget,
};
use retryguard_policy::Service;
use serde_json::{Value, json};

use super::{Losses, View};
use crate::units::protobuf;

/// gRPC never makes more attempts than this.
const MOST_ATTEMPTS: u8 = 5;

pub(super) fn text(services: &[Arc<Service>], losses: &mut Losses) -> String {
    let mut configs = Vec::new();
    let mut throttling: Option<Value> = None;
    for service in services {
        let view = View::of(service);
        view.common_losses(losses);
        view.no_retry_after(losses);
        configs.push(config(&view, losses));
        if service.target.breaker.is_some() {
            losses.add(service, "the breaker");
        }
        if service.target.bulkhead.is_some() {
            losses.add(service, "the bulkhead");
        }
        if let Some(own) = tokens(&view, losses) {
            match &throttling {
                Some(first) if *first != own => {
                    losses.add(service, "its budget: a service config has one for all methods");
                }
                _ => throttling = Some(own),
            }
        }
    }
    let mut all = json!({"methodConfig": configs});
    if let Some(throttling) = throttling {
        all["retryThrottling"] = throttling;
    }
    format!("{all:#}\n")
}

fn config(view: &View<'_>, losses: &mut Losses) -> Value {
    let name = match (view.service.name.as_str(), view.service.name.split_once('/')) {
        ("default", _) => json!({}),
        (_, Some((service, method))) => json!({"service": service, "method": method}),
        (service, None) => json!({"service": service}),
    };
    let mut config = json!({"name": [name]});
    if let Some(deadline) = view.deadline {
        config["timeout"] = json!(protobuf(deadline));
    }
    if view.attempt_timeout.is_some() && view.retries > 0 {
        losses.add(
            view.service,
            "`attemptTimeout`: an attempt may take the whole deadline",
        );
    }
    if view.methods.is_some() {
        losses.add(
            view.service,
            "every method is retried: list those that may be done twice",
        );
    }
    let codes: Vec<&str> = view.signals.codes.iter().copied().collect();
    if view.retries == 0 || codes.is_empty() {
        return config;
    }
    let attempts = view.retries.saturating_add(1);
    if attempts > MOST_ATTEMPTS {
        losses.add(
            view.service,
            format!("{attempts} attempts become {MOST_ATTEMPTS}"),
        );
    }
    let backoff = view.backoff();
    let multiplier = match backoff.growth {
        Growth::Constant => 1.0,
        Growth::Exponential(factor) => factor.as_f64(),
        Growth::Linear => {
            losses.add(view.service, "linear growth becomes doubling");
            2.0
        }
    };
    let fifth = matches!(backoff.jitter, Jitter::Factor { high, .. } if (high.as_f64() - 1.2).abs() < 1e-9);
    if !fifth {
        losses.add(view.service, "the jitter is a factor between 0.8 and 1.2");
    }
    let least = Duration::from_millis(1);
    if backoff.initial < least {
        losses.add(view.service, "a delay is at least 1 ms");
    }
    let initial = backoff.initial.max(least);
    config["retryPolicy"] = json!({
        "maxAttempts": attempts.min(MOST_ATTEMPTS),
        "initialBackoff": protobuf(initial),
        "maxBackoff": protobuf(backoff.cap.max(initial)),
        "backoffMultiplier": multiplier,
        "retryableStatusCodes": codes,
    });
    config
}

/// Retry throttling for a budget: as many retries as the budget allows while everything fails at its limit.
fn tokens(view: &View<'_>, losses: &mut Losses) -> Option<Value> {
    if view.retries == 0 || view.signals.codes.is_empty() {
        return None;
    }
    let (most, ratio) = match view.service.target.budget? {
        budget::Settings::Quota {
            capacity,
            retry_cost,
            success_gain,
            ..
        } => {
            let cost = f64::from(retry_cost.max(1));
            (2.0 * f64::from(capacity) / cost, f64::from(success_gain) / cost)
        }
        budget::Settings::Ratio { ratio, .. } => {
            losses.add(
                view.service,
                "the budget becomes retry throttling: a success gives its share of a token",
            );
            (10.0, ratio.as_f64())
        }
        _ => {
            losses.add(
                view.service,
                "the adaptive budget becomes retry throttling of a fifth",
            );
            (10.0, 0.2)
        }
    };
    // gRPC takes up to 1000 tokens, and three digits behind the point.
    let most = most.clamp(1.0, 1000.0).round();
    let ratio = ((ratio * 1000.0).round() / 1000.0).clamp(0.001, 1000.0);
    Some(json!({"maxTokens": most, "tokenRatio": ratio}))
}
