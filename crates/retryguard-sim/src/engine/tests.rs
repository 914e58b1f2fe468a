//! The engine against what is known without it.

use std::time::Duration;

use retryguard_core::{Criticality, FailureKind, Instant};

use super::*;
use crate::{
    client_policy::named,
    distribution::Distribution,
    world::{
        Arrivals, Client, Edge, Effect, Effects, Fault, Measure, Price, Profile, QueueOrder, Service,
        Shedding, Station, Step,
    },
};

fn workers(name: &str, workers: u32, queue: Option<u32>, time: Distribution) -> Service {
    Service {
        name: name.to_owned(),
        station: Station::Workers {
            replicas: 1,
            workers,
            queue,
            time,
        },
        queue_order: QueueOrder::OldestFirst,
        rejection_time: Duration::ZERO,
        rejection_work: Duration::ZERO,
        errors: 0.0,
        error_kind: FailureKind::Fault,
        load_errors: None,
        effects: Effects::None,
        shedding: Shedding::Off,
        steps: Vec::new(),
        parallel: false,
        blocking: true,
        pool: None,
        notices_cancel: false,
        drops_expired: true,
        clock_skew: Distribution::NOTHING,
        scaler: None,
        price: Price::default(),
    }
}

/// A chain of services, each calling the next, under open-loop calls.
fn chain(services: Vec<Service>, rate: f64, seconds: u64) -> World {
    let duration = Duration::from_secs(seconds);
    let edges = (0..services.len())
        .map(|to| Edge {
            from: if to == 0 {
                "client".into()
            } else {
                services[to - 1].name.clone()
            },
            to,
            network: Distribution::NOTHING,
            attempt_timeout: None,
            knows_endpoints: false,
            policy: EdgePolicy::Compared,
        })
        .collect();
    let last = services.len() - 1;
    let mut services = services;
    for (index, service) in services.iter_mut().enumerate().take(last) {
        service.steps = vec![Step {
            choices: vec![(1.0, Some(index + 1))],
            times: 1,
            optional: false,
            outbox: None,
        }];
    }
    World {
        name: "chain".into(),
        duration,
        drain: Duration::from_secs(600),
        measure: Measure {
            from: Instant::ZERO,
            until: Instant::ZERO.after(duration),
            scaled: None,
        },
        services,
        clients: vec![Client {
            name: "client".into(),
            edge: 0,
            arrivals: Arrivals::Open {
                rate: Profile::constant(rate),
                random: true,
            },
            clients: 1,
            criticality: Criticality::Critical,
            idempotent: true,
            clock_skew: Distribution::NOTHING,
            deadline: None,
            replays: 0.0,
        }],
        edges,
        faults: Vec::new(),
        focus: last,
        step: Duration::from_secs(10),
    }
}

fn second() -> Distribution {
    Distribution::Exponential(Duration::from_secs(1))
}

/// M/M/1/m: the share that is turned away is (1−ρ)ρ^m / (1−ρ^(m+1)).
#[test]
fn a_single_queue_loses_what_the_formula_says() {
    for (load, places) in [(0.8_f64, 5_i32), (1.0, 5), (1.5, 10)] {
        // One is worked on, the others wait.
        let world = chain(
            vec![workers("b", 1, Some(places.cast_unsigned() - 1), second())],
            load,
            200_000,
        );
        let run = run(&world, &named("none").unwrap(), &[], Seed(1));
        let expected = if load == 1.0 {
            1.0 / f64::from(places + 1)
        } else {
            (1.0 - load) * load.powi(places) / (1.0 - load.powi(places + 1))
        };
        let found = run.rejection_rate();
        assert!(
            (found - expected).abs() < 0.006,
            "{load}, {places}: {found} for {expected}"
        );
        assert_eq!(run.unfinished, 0);
    }
}

/// p̃ = (1−1/ρ)^(1/k): five attempts at 150 % give 2.38 retries a call.
#[test]
fn retries_under_overload_come_to_what_the_paper_derives() {
    let world = chain(vec![workers("b", 100, Some(50), second())], 150.0, 2_000);
    let run = run(&world, &named("aws-legacy").unwrap(), &[], Seed(1));
    let found = run.retries_per_call();
    assert!((found - 2.3797).abs() < 0.1, "{found}");
    assert!(
        (run.rejection_rate() - 1.0 / 3.0).abs() < 0.01,
        "{}",
        run.rejection_rate()
    );
}

/// Three layers of three attempts: one call becomes 27 at the last.
#[test]
fn layers_multiply() {
    let mut world = chain(
        vec![
            workers("a", 1000, None, Distribution::NOTHING),
            workers("b", 1000, None, Distribution::NOTHING),
            workers("c", 1000, None, Distribution::NOTHING),
        ],
        10.0,
        100,
    );
    world.faults.push(Fault {
        service: 2,
        effect: Effect::Outage,
        from: Instant::ZERO,
        until: Instant::NEVER,
        rhythm: None,
    });
    let run_of = |name: &str| run(&world, &named(name).unwrap(), &[], Seed(1));
    assert_eq!(run_of("immediate").amplification(), 27.0);
    assert_eq!(run_of("none").amplification(), 1.0);
    // Ours waits for the recovery: most calls send nothing, and those that probe are tried again.
    let ours = run_of("retryguard");
    let sent = ours.services[ours.focus].attempts;
    assert!(sent < 2 * ours.calls, "{sent} for {} calls", ours.calls);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let world = chain(vec![workers("b", 10, Some(5), second())], 12.0, 500);
    let client_policy = named("retryguard").unwrap();
    let print = |seed| format!("{:?}", run(&world, &client_policy, &[], Seed(seed)));
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
}

/// Every known policy ends every call, under faults too, and none does better than the oracle.
#[test]
fn no_policy_exceeds_the_oracle() {
    let mut world = chain(
        vec![workers(
            "b",
            20,
            Some(20),
            Distribution::Exponential(Duration::from_millis(100)),
        )],
        240.0,
        120,
    );
    world.clients[0].deadline = Some(Duration::from_secs(5));
    world.clients[0].clients = 10;
    world.faults.push(Fault {
        service: 0,
        effect: Effect::Outage,
        from: Instant::from_secs(30),
        until: Instant::from_secs(40),
        rhythm: None,
    });
    let oracle = run(&world, &named("oracle").unwrap(), &[], Seed(1));
    for (name, _) in crate::client_policy::NAMES {
        let run = run(&world, &named(name).unwrap(), &[], Seed(1));
        assert_eq!(run.unfinished, 0, "{name}");
        assert_eq!(run.calls, oracle.calls, "{name}");
        assert_eq!(run.calls, run.successes + run.rejected + run.failed, "{name}");
        assert!(
            run.successes as f64 <= oracle.successes as f64 * 1.01,
            "{name}: {} beside {}",
            run.successes,
            oracle.successes
        );
    }
}

/// A service learns when the caller gives an attempt up, whether by the deadline of the call or by the time of an attempt:
/// what waited for longer than that is not worked on for nothing.
#[test]
fn a_service_is_told_when_an_attempt_is_given_up() {
    let service = workers("b", 1, None, Distribution::Constant(Duration::from_secs(1)));
    let world = chain(vec![service], 2.0, 600);
    let success = |policy: retryguard_policy::Policy, propagates: bool| {
        let mut client_policy = ClientPolicy::of_policy("p", policy);
        client_policy.propagates = propagates;
        run(&world, &client_policy, &[], Seed(1)).success_rate()
    };
    let plain = "defaults: {maxRetries: 0, budget: off, guard: off, breaker: off, server: off, ";
    for ends in ["deadline: 5s", "deadline: off, attemptTimeout: 5s"] {
        let policy = || retryguard_policy::Policy::parse(&format!("{plain}{ends}}}")).unwrap();
        let (told, untold) = (success(policy(), true), success(policy(), false));
        assert!(told > 0.1 && untold < 0.02, "{ends}: {told} {untold}");
    }
}
