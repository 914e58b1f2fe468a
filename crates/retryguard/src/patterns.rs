//! Single patterns as layers of their own, for services that want one thing and not a policy.
//!
//! Each is the policy's layer with every other part switched off, so that there is one implementation of
//! each pattern and not two. What a pattern needs beside itself comes with it: retries have a budget.

use std::{sync::Arc, time::Duration};

use retryguard_core::{Backoff, breaker, budget, bulkhead, call, gate, guard, hedge, target, throttle};
use retryguard_policy::{Policy, Service};

use crate::RetryGuardLayer;

pub use crate::rate::{RateLimit, RateLimitFuture, RateLimitLayer};

/// Opens after failures and lets nothing through until a probe succeeds.
pub fn breaker<P>(name: &str, settings: breaker::Settings, protocol: P) -> RetryGuardLayer<P> {
    single(
        name,
        target::Settings {
            breaker: Some(settings),
            ..nothing()
        },
        protocol,
    )
}

/// Bounds what is under way, with a bounded wait.
pub fn bulkhead<P>(name: &str, settings: bulkhead::Settings, protocol: P) -> RetryGuardLayer<P> {
    single(
        name,
        target::Settings {
            bulkhead: Some(settings),
            ..nothing()
        },
        protocol,
    )
}

/// Rejects locally what the target would reject anyway.
pub fn throttle<P>(name: &str, settings: throttle::Settings, protocol: P) -> RetryGuardLayer<P> {
    single(
        name,
        target::Settings {
            throttle: Some(settings),
            ..nothing()
        },
        protocol,
    )
}

/// Retries within a budget.
pub fn retry<P>(
    name: &str,
    retries: u8,
    backoff: Backoff,
    budget: budget::Settings,
    protocol: P,
) -> RetryGuardLayer<P> {
    let call = call::Settings {
        retries,
        backoff,
        ..nothing().call
    };
    single(
        name,
        target::Settings {
            call,
            budget: Some(budget),
            gate: gate::Settings::default(),
            ..nothing()
        },
        protocol,
    )
}

/// Retries within a budget while they are productive.
pub fn guarded_retry<P>(
    name: &str,
    retries: u8,
    backoff: Backoff,
    budget: budget::Settings,
    guard: guard::Settings,
    protocol: P,
) -> RetryGuardLayer<P> {
    let call = call::Settings {
        retries,
        backoff,
        ..nothing().call
    };
    let settings = target::Settings {
        call,
        budget: Some(budget),
        guard: Some(guard),
        gate: gate::Settings::default(),
        ..nothing()
    };
    single(name, settings, protocol)
}

/// Sends a second attempt beside a slow one, within a budget.
pub fn hedge<P>(
    name: &str,
    settings: hedge::Settings,
    budget: budget::Settings,
    protocol: P,
) -> RetryGuardLayer<P> {
    single(
        name,
        target::Settings {
            hedge: Some(settings),
            budget: Some(budget),
            ..nothing()
        },
        protocol,
    )
}

/// Bounds how long a call may take.
pub fn deadline<P>(name: &str, deadline: Duration, protocol: P) -> RetryGuardLayer<P> {
    let call = call::Settings {
        deadline: Some(deadline),
        ..nothing().call
    };
    single(name, target::Settings { call, ..nothing() }, protocol)
}

/// No pattern at all.
fn nothing() -> target::Settings {
    target::Settings {
        call: call::Settings {
            retries: 0,
            deadline: None,
            ..call::Settings::default()
        },
        gate: gate::Settings {
            scope: gate::Scope::Call,
            ..gate::Settings::default()
        },
        ..target::Settings::default()
    }
}

fn single<P>(name: &str, settings: target::Settings, protocol: P) -> RetryGuardLayer<P> {
    let defaults = Policy::default().service(name);
    let service = Service {
        target: Arc::new(settings),
        ..Service::clone(&defaults)
    };
    RetryGuardLayer::from_service(Arc::new(service), protocol)
}
