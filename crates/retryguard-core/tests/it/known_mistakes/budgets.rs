//! Budgets that do not bound anything.

use std::time::Duration;

use retryguard_core::{
    Call, Outcome, Ratio, Refusal, Target, budget, call::Step, chance::Lowest, target::Settings,
};

use crate::support::*;

fn on_budget(budget: budget::Settings) -> Target {
    target(Settings {
        budget: Some(budget),
        ..plain()
    })
}

/// Starts `count` calls that all fail at once, and says how many of them may retry.
fn failing(count: u64, target: &mut Target) -> (usize, Vec<Call>) {
    let mut calls: Vec<Call> = (0..count).map(|ticket| started(ticket, target, at(0))).collect();
    let steps: Vec<Step> = calls
        .iter_mut()
        .map(|call| end(call, 1, &failed(FAULT), target, at(0)))
        .collect();
    let refused = |step: &Step| refusal(*step) == Refusal::Budget;
    assert!(steps.iter().filter(|step| **step != Step::Wait).all(refused));
    (steps.iter().filter(|step| **step == Step::Wait).count(), calls)
}

fn give_up(calls: Vec<Call>, target: &mut Target) {
    calls.into_iter().for_each(|mut call| call.abandon(target));
}

/// A ratio that is truncated to an integer makes 0.6 and 0.9 both mean nothing, or everything.
#[test]
fn budget_ratio_truncated() {
    for percent in [1, 20, 33, 60, 90, 99, 100] {
        let mut target = on_budget(ratio(percent));
        let (allowed, calls) = failing(100, &mut target);
        assert_eq!(allowed, percent as usize);
        give_up(calls, &mut target);
    }
}

/// A minimum of ten retries a second over a window of ten that is granted at the start is a burst of a hundred.
#[test]
fn cold_burst() {
    let ten_a_second = budget::Settings::Ratio {
        ratio: Ratio::ZERO,
        window: Duration::from_secs(10),
        reserve: budget::Reserve {
            per_second: Ratio::percent(1000),
            most: 100,
        },
    };
    let mut target = on_budget(ten_a_second);
    let (allowed, calls) = failing(200, &mut target);
    assert_eq!(allowed, 1, "the first call is retried, and no other");
    give_up(calls, &mut target);
    assert_eq!(target.budget_balance(at(1000)), Some(11));
}

/// A budget that looks at what is in flight and charges when the retry is sent lets every retry through that
/// is decided before the first is sent. All of these sit in back-off at the same time.
#[test]
fn check_then_add_over_admits() {
    let mut target = on_budget(ratio(20));
    let (allowed, mut calls) = failing(100, &mut target);
    assert_eq!(allowed, 20);
    let sent = calls
        .iter_mut()
        .map(|call| call.on_timer(&mut target, at(10), &mut Lowest))
        .filter(|step| matches!(step, Step::Send(_)))
        .count();
    assert_eq!(sent, 20);
    give_up(calls, &mut target);
}

/// A token for every success pays for a retry of every failure up to a failure rate of a half. Ours stays at
/// its share.
#[test]
fn one_token_a_success_caps_nothing() {
    let mut at_once = Settings {
        budget: Some(ratio(20)),
        ..plain()
    };
    at_once.call.backoff = constant(0);
    let mut target = target(at_once);
    let mut tokens = 0;
    let (mut naive, mut ours) = (0, 0);
    for ticket in 0..1000 {
        let fails = ticket % 2 == 1;
        let outcome = if fails { failed(FAULT) } else { Outcome::Success };
        let mut call = started(ticket, &mut target, at(0));
        let step = end(&mut call, 1, &outcome, &mut target, at(0));
        if !fails {
            tokens += 1;
        } else if tokens > 0 {
            tokens -= 1;
            naive += 1;
        }
        ours += u32::from(matches!(step, Step::Send(_)));
        call.abandon(&mut target);
    }
    assert_eq!((naive, ours), (500, 200));
}
