//! `services` over `defaults`, key by key, and what the sections mean.

use std::{sync::Arc, time::Duration};

use retryguard_core::{
    Criticality, Ratio,
    backoff::{Growth, Jitter},
    breaker::{self, Trip},
    budget, bulkhead, endpoints, gate, guard, hedge, target,
};
use retryguard_policy::{Policy, Service};

fn service(text: &str) -> Arc<Service> {
    Policy::parse(text)
        .unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
        .service("a")
}

fn target(text: &str) -> Arc<target::Settings> {
    Arc::clone(&service(text).target)
}

#[test]
fn a_service_overrides_single_keys_also_inside_a_section() {
    let target = target(
        "defaults: {maxRetries: 1, budget: {percent: 10%, interval: 30s}}\n\
         services: {a: {deadline: 1s, budget: {percent: 0.05}}}",
    );
    assert_eq!(target.call.retries, 1);
    assert_eq!(target.call.deadline, Some(Duration::from_secs(1)));
    let Some(budget::Settings::Ratio { ratio, window, .. }) = target.budget else {
        panic!("a ratio");
    };
    assert_eq!((ratio, window), (Ratio::percent(5), Duration::from_secs(30)));
}

#[test]
fn the_nearer_of_two_words_for_jitter_wins() {
    let jitter = |text: &str| target(text).call.backoff.jitter;
    assert_eq!(
        jitter("defaults: {jitterFactor: 0.5}\nservices: {a: {jitter: equal}}"),
        Jitter::Equal
    );
    let factor = Jitter::Factor {
        low: Ratio::percent(80),
        high: Ratio::percent(120),
    };
    assert_eq!(
        jitter("defaults: {jitter: equal}\nservices: {a: {jitterFactor: 0.2}}"),
        factor
    );
    assert_eq!(jitter("services: {a: {jitterFactor: 0}}"), Jitter::None);
    assert_eq!(
        jitter("services: {a: {jitter: decorrelated}}"),
        Jitter::Decorrelated
    );
}

#[test]
fn every_part_can_be_switched() {
    let off = target("services: {a: {budget: off, guard: off, breaker: false}}");
    assert!(off.budget.is_none() && off.guard.is_none() && off.breaker.is_none());
    let on = target("services: {a: {throttle: on, bulkhead: on, hedge: true}}");
    assert!(on.throttle.is_some() && on.bulkhead.is_some() && on.hedge.is_some());
    assert!(target("services: {a: {endpoints: off}}").endpoints.is_none());
    let some = target("services: {a: {endpoints: {inARow: 3, factor: 4, mostOut: 30%, outForAtMost: 2s}}}");
    assert_eq!(
        some.endpoints,
        Some(endpoints::Settings {
            in_a_row: 3,
            factor: Ratio::from_parts(4 * Ratio::PARTS),
            most_out: Ratio::percent(30),
            out_for: Duration::from_secs(2),
            out_for_at_most: Duration::from_secs(2),
            ..endpoints::Settings::default()
        })
    );
    let again = target("defaults: {budget: off}\nservices: {a: {budget: on}}");
    assert_eq!(again.budget, Some(budget::Settings::default()));
    assert!(service("services: {a: {server: off}}").server.is_none());
}

#[test]
fn budgets_have_three_forms() {
    let adaptive = target("services: {a: {budget: {form: adaptive, minPercent: 5%, maxPercent: 40%}}}");
    assert!(matches!(
        adaptive.budget,
        Some(budget::Settings::Adaptive { least, most, .. })
            if least == Ratio::percent(5) && most == Ratio::percent(40)
    ));
    let quota = target("services: {a: {budget: {form: quota}}}");
    assert_eq!(
        quota.budget,
        Some(budget::Settings::Quota {
            capacity: 500,
            retry_cost: 5,
            timeout_cost: 10,
            success_gain: 1
        })
    );
    // Another form in the defaults leaves nothing behind.
    let back =
        target("defaults: {budget: {form: quota, capacity: 7}}\nservices: {a: {budget: {form: ratio}}}");
    assert_eq!(back.budget, Some(budget::Settings::default()));
}

#[test]
fn a_minimum_rate_is_a_rate_and_a_store() {
    let target = target("services: {a: {budget: {minRetryRate: {count: 30, interval: 1m}}}}");
    let Some(budget::Settings::Ratio { reserve, .. }) = target.budget else {
        panic!("a ratio");
    };
    assert_eq!((reserve.per_second, reserve.most), (Ratio::percent(50), 30));
}

#[test]
fn breakers_trip_in_three_ways() {
    let trip = |text: &str| target(text).breaker.unwrap().trip;
    assert_eq!(
        trip("services: {a: {breaker: {trip: consecutive, failures: 7}}}"),
        Trip::Consecutive(7)
    );
    assert_eq!(
        trip("services: {a: {breaker: {trip: count, failures: 5, window: 60s}}}"),
        Trip::Count {
            failures: 5,
            window: Duration::from_secs(60)
        }
    );
    let fixed = target("services: {a: {breaker: {openFor: 2m}}}").breaker.unwrap();
    assert_eq!(
        (fixed.open_for, fixed.open_for_at_most),
        (Duration::from_secs(120), Duration::from_secs(120))
    );
    assert_eq!(trip("services: {a: {breaker: on}}"), Trip::Silence(10));
    assert_eq!(
        trip("services: {a: {breaker: {trip: rate}}}"),
        breaker::Settings::default().trip
    );
}

#[test]
fn hedges_bulkheads_and_the_gate() {
    let hedge = |text: &str| target(text).hedge.unwrap();
    assert_eq!(
        hedge("services: {a: {hedge: {after: 80ms, most: 2}}}"),
        hedge::Settings {
            after: hedge::After::Fixed(Duration::from_millis(80)),
            most: 2
        }
    );
    assert!(matches!(
        hedge("services: {a: {hedge: {after: 99%}}}").after,
        hedge::After::Percentile { share, .. } if share == Ratio::percent(99)
    ));
    let fixed = target("services: {a: {bulkhead: {limit: 20, wait: 1s}}}")
        .bulkhead
        .unwrap();
    assert_eq!(fixed.waiting, 20, "as many wait as there are places");
    let gradient = target("services: {a: {bulkhead: {form: gradient, most: 10}}}")
        .bulkhead
        .unwrap();
    assert!(matches!(
        gradient.limit,
        bulkhead::Limit::Gradient {
            initial: 10,
            least: 1,
            most: 10,
            ..
        }
    ));
    let gate = target("services: {a: {gate: {scope: retries, atMost: 5s}}}").gate;
    assert_eq!(
        (gate.scope, gate.at_most),
        (gate::Scope::Retries, Duration::from_secs(5))
    );
}

#[test]
fn guards_have_two_modes_and_three_signals() {
    let mode = |text: &str| target(text).guard.unwrap().mode;
    assert_eq!(
        mode("services: {a: {guard: {mode: algorithm1, threshold: 20%, samples: 30}}}"),
        guard::Mode::Algorithm1 {
            threshold: Ratio::percent(20),
            samples: 30
        }
    );
    let rules = |text: &str| match mode(text) {
        guard::Mode::Hysteresis(rules) => rules,
        other => panic!("{other:?}"),
    };
    let lower = rules("services: {a: {guard: {offAbove: 8%}}}");
    assert_eq!(lower.on_below, Ratio::percent(4), "half of the upper threshold");
    let delay = rules("services: {a: {guard: {signal: delay, offAbove: 500ms}}}");
    assert_eq!(
        (delay.off_above, delay.on_below),
        (Ratio::percent(50), Ratio::percent(25))
    );
}

/// Such a guard was accepted, and never switched anything.
#[test]
fn more_than_all_attempts_cannot_be_rejected() {
    let told = |guard: &str| {
        Policy::parse(&format!("services: {{a: {{guard: {guard}}}}}")).map_err(|told| told.to_string())
    };
    for (guard, key) in [
        ("{offAbove: 100%}", "`offAbove` is never exceeded"),
        (
            "{mode: algorithm1, threshold: 1000%}",
            "`threshold` is never exceeded",
        ),
    ] {
        let told = told(guard).unwrap_err();
        assert!(told.contains(key), "{told}");
    }
    // A call may have more retries than one.
    assert!(told("{signal: retries-per-call, offAbove: 300%}").is_ok());
    assert!(told("{offAbove: 99%}").is_ok());
}

#[test]
fn the_rest_of_a_service() {
    let service = service(
        "services:\n  a:\n    criticality: sheddable-plus\n    replayLimit: 1MiB\n    period: 5m\n    \
         calls: [b, c]\n    featuresOff: [z, prefetch]\n    growth: linear\n    stopBeyond: 300s\n    \
         retryNonIdempotent: true\n    idempotency: {methods: [GET, POST], keyHeader: x-key, addKeys: true}\n    \
         server: {inFlight: 50, working: 10, processor: 80%, deadline: 2s}\n",
    );
    assert_eq!(service.criticality, Criticality::SheddablePlus);
    assert_eq!(service.replay_limit, 1 << 20);
    assert_eq!(service.period, Some(Duration::from_secs(300)));
    assert_eq!(service.calls, ["b", "c"]);
    assert_eq!(service.target.features_off, ["prefetch".into(), "z".into()]);
    assert_eq!(service.target.call.backoff.growth, Growth::Linear);
    assert_eq!(
        service.target.call.backoff.stop_beyond,
        Some(Duration::from_secs(300))
    );
    assert!(
        service.idempotency.covers("PATCH"),
        "retryNonIdempotent speaks for every method"
    );
    assert_eq!(service.idempotency.methods, ["GET", "POST"]);
    let server = service.server.unwrap();
    assert_eq!((server.in_flight, server.working), (50, Some(10)));
    assert_eq!(server.processor, Some(Ratio::percent(80)));
    assert_eq!(service.server_deadline, Some(Duration::from_secs(2)));
}

#[test]
fn the_bound_of_a_server_is_a_number_or_adaptive() {
    let server = |keys: &str| {
        let service = service(&format!("services: {{a: {{server: {{{keys}}}}}}}"));
        let server = service.server.unwrap();
        (server.in_flight, server.adaptive)
    };
    assert_eq!(server("inFlight: 50"), (50, false));
    assert_eq!(server("inFlight: adaptive"), (1000, true));
    assert_eq!(server("queueTime: 30ms"), (200, false));
}

/// The lists of a policy reach the attempts that the machine itself ends.
#[test]
fn a_timeout_is_read_as_the_lists_say() {
    let read = target("services: {a: {neverRetryOn: [timeout], notRejections: [timeout]}}")
        .call
        .timeout;
    assert!(!read.retryable && !read.rejection && read.unhealthy);
}
