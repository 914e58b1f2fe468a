//! Ours: each pattern as the only one of a layer, the whole stack, and the breaker's machine alone.

use std::{
    hint::black_box,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusBuilder;
use retryguard::{Policy, RetryGuardLayer, protocol::Plain};
use retryguard_core::{
    Instant,
    breaker::{self, Breaker, Trip},
    budget, bulkhead, call, guard, target, throttle,
};
use retryguard_policy::Service;
use tower_layer::Layer;

use crate::{
    Caller, DEFAULT_POLICY, RECORDED_STACK, Subject, WHOLE_STACK, clock,
    service::{Bottom, calls_of, work},
};

pub(crate) fn subjects() -> Vec<Subject> {
    let subject = |name, what, peer, target| Subject {
        name,
        package: "retryguard",
        what,
        peer: Some(peer),
        target,
    };
    vec![
        subject("retry", "retry with a budget", "tower-retry", || {
            layer(target::Settings {
                call: call::Settings {
                    retries: 2,
                    ..nothing()
                },
                budget: Some(budget::Settings::default()),
                ..alone()
            })
        }),
        subject("breaker", "breaker by rate", "resilience-breaker", || {
            layer(target::Settings {
                breaker: Some(breaker::Settings::default()),
                ..alone()
            })
        }),
        subject(
            "breaker-machine",
            "breaker by failures in a row, the machine behind a lock, a function",
            "failsafe",
            breaker_machine,
        ),
        subject("throttle", "adaptive throttle", "governor", || {
            layer(target::Settings {
                throttle: Some(throttle::Settings::default()),
                ..alone()
            })
        }),
        subject("bulkhead", "bulkhead", "tower-limit", || {
            layer(target::Settings {
                bulkhead: Some(bulkhead::Settings::default()),
                ..alone()
            })
        }),
        subject("guard", "guard", "bare", || {
            layer(target::Settings {
                guard: Some(guard::Settings::default()),
                ..alone()
            })
        }),
        subject("deadline", "deadline", "tower-timeout", || {
            layer(target::Settings {
                call: call::Settings {
                    deadline: Some(Duration::from_secs(10)),
                    ..nothing()
                },
                ..alone()
            })
        }),
        subject(
            WHOLE_STACK,
            "the whole stack: breaker, budget, throttle, bulkhead, guard, deadline",
            "resilience-both",
            || layer(whole_stack()),
        ),
        subject(
            RECORDED_STACK,
            "the whole stack, with a Prometheus recorder",
            WHOLE_STACK,
            recorded_stack,
        ),
        subject(
            DEFAULT_POLICY,
            "the default policy: measuring guard, adaptive limit, breaker, budget, deadline",
            "resilience-both",
            || {
                let layer = RetryGuardLayer::new(&Policy::default(), "bench", Plain::idempotent());
                Box::new(move || calls_of(layer.layer(Bottom)))
            },
        ),
    ]
}

pub(crate) fn whole_stack() -> target::Settings {
    target::Settings {
        call: call::Settings::default(),
        breaker: Some(breaker::Settings::default()),
        budget: Some(budget::Settings::default()),
        throttle: Some(throttle::Settings::default()),
        bulkhead: Some(bulkhead::Settings::default()),
        guard: Some(guard::Settings::default()),
        ..target::Settings::default()
    }
}

/// With its metrics in a recorder of its own. The handles are made with the first call.
fn recorded_stack() -> Box<dyn Fn() -> Caller> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let callers = layer(whole_stack());
    metrics::with_local_recorder(&recorder, || callers()(1));
    callers
}

/// Rules that do nothing, for a pattern to be added to.
fn nothing() -> call::Settings {
    call::Settings {
        retries: 0,
        deadline: None,
        ..call::Settings::default()
    }
}

fn alone() -> target::Settings {
    target::Settings {
        call: nothing(),
        ..target::Settings::default()
    }
}

fn layer(settings: target::Settings) -> Box<dyn Fn() -> Caller> {
    let service = Service {
        target: Arc::new(settings),
        ..(*Policy::default().service("bench")).clone()
    };
    let layer = RetryGuardLayer::from_service(Arc::new(service), Plain::idempotent());
    Box::new(move || calls_of(layer.layer(Bottom)))
}

/// What a program without tower can do with the machine: a lock, and the clock read before and after.
fn breaker_machine() -> Box<dyn Fn() -> Caller> {
    let settings = breaker::Settings {
        trip: Trip::Consecutive(3),
        ..breaker::Settings::default()
    };
    let breaker = Arc::new(Mutex::new(Breaker::new(settings, Instant::ZERO)));
    let origin = clock::now();
    Box::new(move || {
        let breaker = breaker.clone();
        Box::new(move |calls| {
            let now = || Instant::ZERO.after(clock::now() - origin);
            for request in 0..calls {
                let admitted = breaker.lock().expect("no thread panics").admit(now());
                let pass = admitted.expect("nothing fails");
                let response = black_box(work(black_box(request)));
                breaker
                    .lock()
                    .expect("no thread panics")
                    .on_end(pass, response.is_ok(), now());
            }
        })
    })
}
