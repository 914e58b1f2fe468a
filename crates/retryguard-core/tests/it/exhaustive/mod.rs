//! Every order of events and every chance, on small bounds, over the real code.
//!
//! A path is a sequence of choices: which event comes next, and how each draw comes out. Paths are walked
//! depth first by re-execution. After every event the machines are compared with books that the walk keeps
//! itself: places, queue, attempts, budget, probes, gates and deadlines.

mod choices;
mod ledger;
mod policies;
mod walk;

use retryguard_core::{FailureKind, Outcome, budget, outcome::Hints, target::Settings, throttle};

use crate::support::{FAULT, failed, hedge, hinted, ms, ratio, retry_after};
use policies::{base, breaker, bulkhead, everything, guard, ramping_guard, with_jitter};
use walk::World;

const SUCCESS: Outcome = Outcome::Success;

fn world(policy: Settings, calls: usize, depth: usize) -> World {
    World {
        policies: vec![policy],
        calls,
        outcomes: vec![SUCCESS, failed(FAULT)],
        moments: vec![],
        depth,
        backwards: false,
    }
}

/// Walks, and says how much that was. A walk that has silently become small, or no longer meets what it is
/// there to meet, proves nothing.
#[track_caller]
fn walk(world: &World, at_least: u64, to_meet: &[&str]) {
    let walked = world.walk();
    println!("{} paths, {} events", walked.paths, walked.events);
    assert!(walked.paths >= at_least, "only {} paths", walked.paths);
    assert_eq!(walked.met.into_iter().collect::<Vec<_>>(), to_meet);
}

#[test]
fn one_call_that_retries() {
    let outcomes = vec![
        SUCCESS,
        failed(FAULT),
        failed(FailureKind::Request),
        failed(FailureKind::Cancelled),
    ];
    walk(
        &World {
            outcomes,
            ..world(with_jitter(), 1, 14)
        },
        640,
        &["attempts-used", "deadline", "not-retryable"],
    );
}

#[test]
fn two_calls_that_retry_while_time_runs_backwards() {
    walk(
        &World {
            backwards: true,
            ..world(with_jitter(), 2, 7)
        },
        820_000,
        &["attempts-used", "deadline"],
    );
}

#[test]
fn three_calls_on_a_budget() {
    walk(
        &world(
            Settings {
                budget: Some(ratio(50)),
                ..with_jitter()
            },
            3,
            9,
        ),
        720_000,
        &["budget", "deadline"],
    );
}

#[test]
fn two_calls_on_a_quota() {
    let quota = budget::Settings::Quota {
        capacity: 3,
        retry_cost: 1,
        timeout_cost: 2,
        success_gain: 1,
    };
    let outcomes = vec![SUCCESS, failed(FAULT), failed(FailureKind::Timeout)];
    let policy = Settings {
        budget: Some(quota),
        ..with_jitter()
    };
    walk(
        &World {
            outcomes,
            ..world(policy, 2, 9)
        },
        500_000,
        &["attempts-used", "budget", "deadline"],
    );
}

#[test]
fn three_calls_on_a_breaker_with_one_probe() {
    let policy = Settings {
        breaker: breaker(1, 2),
        ..base()
    };
    let moments = vec![10, 20, 40];
    walk(
        &World {
            moments,
            ..world(policy, 3, 9)
        },
        290_000,
        &["attempts-used", "breaker-open", "deadline", "probes-busy"],
    );
}

#[test]
fn three_calls_on_a_breaker_with_two_probes() {
    let mut policy = Settings {
        breaker: breaker(2, 2),
        ..base()
    };
    policy.call.deadline = None;
    policy.call.attempt_timeout = None;
    let outcomes = vec![SUCCESS, failed(FAULT), failed(FailureKind::Cancelled)];
    let moments = vec![10, 20, 40];
    walk(
        &World {
            outcomes,
            moments,
            ..world(policy, 3, 9)
        },
        400_000,
        &["attempts-used", "breaker-open", "not-retryable", "probes-busy"],
    );
}

#[test]
fn three_calls_on_a_bulkhead_with_a_queue() {
    walk(
        &world(
            Settings {
                bulkhead: bulkhead(1),
                ..with_jitter()
            },
            3,
            9,
        ),
        340_000,
        &["attempts-used", "bulkhead-full", "bulkhead-timeout", "deadline"],
    );
}

#[test]
fn one_call_that_hedges() {
    let policy = Settings {
        hedge: Some(hedge(5, 2)),
        budget: Some(ratio(300)),
        ..with_jitter()
    };
    walk(
        &world(policy, 1, 16),
        16_000,
        &["attempts-used", "budget", "deadline"],
    );
}

#[test]
fn two_calls_that_hedge_on_one_budget_and_two_places() {
    let policy = Settings {
        hedge: Some(hedge(5, 1)),
        budget: Some(ratio(100)),
        bulkhead: bulkhead(2),
        ..base()
    };
    walk(
        &world(policy, 2, 11),
        160_000,
        &["attempts-used", "budget", "bulkhead-timeout", "deadline"],
    );
}

#[test]
fn two_calls_before_a_gate() {
    let mark = Hints {
        do_not_retry: true,
        ..Hints::NONE
    };
    let outcomes = vec![
        SUCCESS,
        failed(FAULT),
        hinted(FailureKind::Overload, retry_after(8)),
        hinted(FailureKind::Overload, mark),
    ];
    let mut policy = Settings {
        hedge: Some(hedge(5, 1)),
        ..base()
    };
    policy.gate.no_retry_for = ms(5);
    let moments = vec![8, 16];
    walk(
        &World {
            outcomes,
            moments,
            ..world(policy, 2, 9)
        },
        440_000,
        &["attempts-used", "deadline", "retry-after", "target-forbids"],
    );
}

#[test]
fn three_calls_in_a_queue_before_a_gate() {
    let outcomes = vec![
        SUCCESS,
        failed(FAULT),
        hinted(FailureKind::Overload, retry_after(5)),
    ];
    let policy = Settings {
        bulkhead: bulkhead(1),
        ..base()
    };
    walk(
        &World {
            outcomes,
            moments: vec![5],
            ..world(policy, 3, 9)
        },
        200_000,
        &["attempts-used", "bulkhead-timeout", "deadline", "retry-after"],
    );
}

#[test]
fn two_calls_under_a_guard() {
    let outcomes = vec![SUCCESS, failed(FAULT), failed(FailureKind::Overload)];
    let policy = Settings {
        guard: guard(),
        hedge: Some(hedge(5, 1)),
        ..base()
    };
    let moments = vec![10, 20];
    walk(
        &World {
            outcomes,
            moments,
            ..world(policy, 2, 11)
        },
        510_000,
        &["attempts-used", "deadline", "guard"],
    );
}

#[test]
fn three_calls_under_a_guard_that_ramps() {
    let outcomes = vec![SUCCESS, failed(FAULT), failed(FailureKind::Overload)];
    let mut policy = Settings {
        guard: ramping_guard(),
        ..base()
    };
    policy.call.attempt_timeout = None;
    policy.call.deadline = None;
    walk(
        &World {
            outcomes,
            moments: vec![5, 10, 15],
            ..world(policy, 3, 9)
        },
        640_000,
        &["attempts-used", "guard", "ramping"],
    );
}

#[test]
fn three_calls_under_a_throttle() {
    let outcomes = vec![SUCCESS, failed(FailureKind::Overload)];
    let policy = Settings {
        throttle: Some(throttle::Settings::default()),
        ..base()
    };
    walk(
        &World {
            outcomes,
            ..world(policy, 3, 9)
        },
        340_000,
        &["attempts-used", "deadline", "throttled"],
    );
}

#[test]
fn two_calls_under_everything() {
    let overload = hinted(FailureKind::Overload, retry_after(5));
    walk(
        &World {
            outcomes: vec![SUCCESS, failed(FAULT), overload],
            ..world(everything(), 2, 12)
        },
        110_000,
        &[
            "attempts-used",
            "breaker-open",
            "bulkhead-timeout",
            "deadline",
            "guard",
            "probes-busy",
            "ramping",
            "retry-after",
            "throttled",
        ],
    );
}

#[test]
fn three_calls_under_everything() {
    walk(
        &world(everything(), 3, 10),
        185_000,
        &[
            "attempts-used",
            "breaker-open",
            "bulkhead-timeout",
            "deadline",
            "probes-busy",
            "throttled",
        ],
    );
}

/// Every part goes and comes back under calls that are under way.
#[test]
fn two_calls_while_all_parts_are_taken_away_and_brought_back() {
    let policies = vec![everything(), base(), everything()];
    walk(
        &World {
            policies,
            moments: vec![10, 20],
            ..world(base(), 2, 9)
        },
        270_000,
        &[
            "attempts-used",
            "breaker-open",
            "budget",
            "bulkhead-timeout",
            "deadline",
            "guard",
            "probes-busy",
            "ramping",
            "throttled",
        ],
    );
}

/// The same parts with other numbers: fewer retries, a smaller ratio, fewer successes to close.
#[test]
fn three_calls_while_the_numbers_change() {
    let mut second = Settings {
        budget: Some(ratio(50)),
        breaker: breaker(1, 1),
        bulkhead: bulkhead(2),
        ..everything()
    };
    second.call.retries = 0;
    let policies = vec![everything(), second];
    walk(
        &World {
            policies,
            moments: vec![10, 20],
            ..world(base(), 3, 8)
        },
        185_000,
        &[
            "attempts-used",
            "breaker-open",
            "bulkhead-timeout",
            "deadline",
            "probes-busy",
            "ramping",
            "throttled",
        ],
    );
}
