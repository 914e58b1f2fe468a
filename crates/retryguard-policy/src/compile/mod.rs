//! Written to compiled: `services` over `defaults`, the checks that need more than one key, and the settings
//! of the machines.
//!
//! Where two keys bound each other (a first delay and a largest one), both written the wrong way round is a
//! mistake; one of them left out gives way to the one that is written.

mod call;
mod limits;
mod parse;
mod recovery;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use retryguard_core::{Criticality, target};

pub(crate) use parse::read;

use crate::{
    diagnostics::{Mistakes, Position},
    digest,
    policy::{EXEMPT, FULL_TIMEOUT, Idempotency, Policy, Service},
    written::{self, At, Switch, Written},
};

/// How often a remote policy is looked for, unless the file says otherwise.
const REMOTE_PERIOD: Duration = Duration::from_secs(60);

/// Bytes of a body that are kept, unless the file says otherwise.
const REPLAY_LIMIT: usize = 64 * 1024;

/// The methods that RFC 9110 calls idempotent.
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

/// Compiles a file. Always gives a policy; it is a good one only if `mistakes` stays empty.
pub(crate) fn policy(written: &written::Document, mistakes: &mut Mistakes) -> Policy {
    let nothing = written::Service::default();
    let defaults = value(&written.defaults).unwrap_or(&nothing);
    let listed = value(&written.services).map_or(&[][..], |services| &services.0);
    let compiled = listed.iter().map(|(name, own)| {
        let effective = effective(&own.value, defaults);
        let service = service(name, &own.value, &effective, mistakes);
        (name.clone(), Arc::new(service))
    });
    let services: BTreeMap<_, _> = compiled.collect();
    let mut policy = Policy {
        defaults: Arc::new(service("", defaults, defaults, mistakes)),
        services,
        gateway_retries: copied(&written.gateway_retries).unwrap_or(false),
        remote_period: copied(&written.remote_period).unwrap_or(REMOTE_PERIOD),
        digest: String::new(),
    };
    policy.digest = digest::of(&policy);
    policy
}

/// What a service says over what the defaults say.
pub(crate) fn effective(own: &written::Service, defaults: &written::Service) -> written::Service {
    let mut effective = own.over(defaults);
    // Two keys for one thing: the one that stands nearer wins.
    if own.jitter.is_some() {
        effective.jitter_factor.clone_from(&own.jitter_factor);
    } else if own.jitter_factor.is_some() {
        effective.jitter = None;
    }
    effective
}

/// Compiles one service. `own` is what it writes itself: a key that means nothing beside the others is a
/// mistake there, and only there.
fn service(name: &str, own: &written::Service, all: &written::Service, mistakes: &mut Mistakes) -> Service {
    let classifier = call::classifier(all, mistakes);
    let guard = part(&own.guard, &all.guard, true, mistakes, recovery::guard);
    // The defaults of the other parts were chosen together with the guard: beside one that measures they measure too,
    // and a file that asks for another guard, or for none, keeps the parts that went with it.
    let measured = guard.is_some_and(|guard| matches!(guard.mode, retryguard_core::guard::Mode::Response(_)));
    let server = all.server.as_ref().and_then(|server| server.value.on());
    Service {
        name: name.to_owned(),
        target: Arc::new(target::Settings {
            call: call::settings(own, all, measured, &classifier, mistakes),
            gate: limits::gate(value(&all.gate), measured),
            breaker: part(
                &own.breaker,
                &all.breaker,
                true,
                mistakes,
                |own, all, mistakes| recovery::breaker(own, all, measured, mistakes),
            ),
            budget: part(&own.budget, &all.budget, true, mistakes, limits::budget),
            throttle: part(&own.throttle, &all.throttle, false, mistakes, limits::throttle),
            bulkhead: bulkhead(own, all, measured, mistakes),
            hedge: part(&own.hedge, &all.hedge, false, mistakes, limits::hedge),
            guard,
            endpoints: part(
                &own.endpoints,
                &all.endpoints,
                true,
                mistakes,
                recovery::endpoints,
            ),
            features_off: features_off(all),
        }),
        classifier,
        idempotency: idempotency(all),
        replay_limit: copied(&all.replay_limit).map_or(REPLAY_LIMIT, |size| size.0),
        tags: copied(&all.tags).unwrap_or(true),
        body_timeout: body_timeout(all),
        criticality: copied(&all.criticality).unwrap_or(Criticality::Critical),
        period: all.period.as_ref().and_then(|period| period.value.0),
        server: part(&own.server, &all.server, true, mistakes, recovery::server),
        server_deadline: server
            .and_then(|server| server.deadline.as_ref())
            .and_then(|deadline| deadline.value.0),
        server_full_timeout: server
            .and_then(|server| server.full_timeout.as_ref())
            .map_or(Some(FULL_TIMEOUT), |timeout| timeout.value.0),
        server_trust: server
            .and_then(|server| copied(&server.trust))
            .unwrap_or_default(),
        server_holds_bodies: server
            .and_then(|server| copied(&server.hold_bodies))
            .unwrap_or(true),
        server_exempt: server
            .and_then(|server| server.exempt.as_ref())
            .map_or_else(|| EXEMPT.map(String::from).to_vec(), |exempt| names(Some(exempt))),
        calls: names(all.calls.as_ref()),
    }
}

/// A pause of a body is bounded by what bounds the wait for its head.
fn body_timeout(all: &written::Service) -> Option<Duration> {
    if let Some(written) = &all.body_timeout {
        return written.value.0;
    }
    let attempt = all.attempt_timeout.as_ref().and_then(|timeout| timeout.value.0);
    let whole = match &all.deadline {
        Some(deadline) => deadline.value.0,
        None => retryguard_core::call::Settings::default().deadline,
    };
    // The deadline bounds an attempt too, whatever its own timeout says.
    attempt.into_iter().chain(whole).min()
}

/// The bulkhead: adaptive beside a guard that measures where nothing is written, and as it is written otherwise.
fn bulkhead(
    own: &written::Service,
    all: &written::Service,
    measured: bool,
    mistakes: &mut Mistakes,
) -> Option<retryguard_core::bulkhead::Settings> {
    if all.bulkhead.is_none() && measured {
        return Some(limits::adaptive_bulkhead());
    }
    part(&own.bulkhead, &all.bulkhead, false, mistakes, limits::bulkhead)
}

/// Compiles a part that can be switched off. `by_default` says what leaving it out means.
fn part<S: Clone + Default, T>(
    own: &Option<At<Switch<S>>>,
    all: &Option<At<Switch<S>>>,
    by_default: bool,
    mistakes: &mut Mistakes,
    compile: impl Fn(&S, &S, &mut Mistakes) -> T,
) -> Option<T> {
    let nothing = S::default();
    let own = value(own).and_then(Switch::on).unwrap_or(&nothing);
    match value(all) {
        None => by_default.then(|| compile(&nothing, &nothing, mistakes)),
        Some(Switch::Off) => None,
        Some(Switch::On(all)) => Some(compile(own, all, mistakes)),
    }
}

fn idempotency(all: &written::Service) -> Idempotency {
    let written = value(&all.idempotency);
    let methods = written.and_then(|written| written.methods.as_ref());
    Idempotency {
        methods: methods.map_or_else(
            || IDEMPOTENT.map(String::from).to_vec(),
            |methods| names(Some(methods)),
        ),
        key_header: written
            .and_then(|written| written.key_header.as_ref())
            .map_or_else(|| "idempotency-key".to_owned(), |header| header.value.0.clone()),
        add_keys: written
            .and_then(|written| copied(&written.add_keys))
            .unwrap_or(false),
        retry_non_idempotent: copied(&all.retry_non_idempotent).unwrap_or(false),
    }
}

/// Sorted, because features are looked up by a binary search.
fn features_off(all: &written::Service) -> Vec<Box<str>> {
    let mut features: Vec<Box<str>> = names(all.features_off.as_ref())
        .into_iter()
        .map(String::into_boxed_str)
        .collect();
    features.sort_unstable();
    features.dedup();
    features
}

fn names(list: Option<&At<written::List<written::Text>>>) -> Vec<String> {
    let texts = list.map(|list| list.value.values()).unwrap_or_default();
    texts.into_iter().map(|text| text.0).collect()
}

/// The value of a key, if it is written.
pub(crate) fn value<T>(key: &Option<At<T>>) -> Option<&T> {
    key.as_ref().map(|key| &key.value)
}

/// The value of a key, if it is written.
pub(crate) fn copied<T: Copy>(key: &Option<At<T>>) -> Option<T> {
    key.as_ref().map(|key| key.value)
}

fn place<T>(key: &Option<At<T>>) -> Option<Position> {
    key.as_ref().map(|key| key.at)
}

/// Adds a mistake for every key that is written and means nothing beside `beside`.
fn means_nothing(keys: &[(&str, Option<Position>)], beside: &str, mistakes: &mut Mistakes) {
    for (key, at) in keys {
        if let Some(at) = at {
            let message = format!("`{key}` means nothing with `{beside}`");
            mistakes.add(*at, message, format!("remove it, or change `{beside}`"));
        }
    }
}

/// Two keys of which the first may not exceed the second. Both written the wrong way round is a mistake; one
/// that is not written gives way.
fn ordered<T: Copy + Ord>(
    (low_key, low): (&str, &Option<At<T>>),
    (high_key, high): (&str, &Option<At<T>>),
    (low_default, high_default): (T, T),
    mistakes: &mut Mistakes,
) -> (T, T) {
    match (low, high) {
        (Some(low), Some(high)) => {
            if low.value > high.value {
                mistakes.add(
                    low.at.max(high.at),
                    format!("`{low_key}` is above `{high_key}`"),
                    format!("lower `{low_key}` or raise `{high_key}`"),
                );
            }
            (low.value, high.value)
        }
        (Some(low), None) => (low.value, high_default.max(low.value)),
        (None, Some(high)) => (low_default.min(high.value), high.value),
        (None, None) => (low_default, high_default),
    }
}
