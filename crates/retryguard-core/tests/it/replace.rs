//! A policy that is swapped under calls that are under way.

use std::{sync::Arc, time::Duration};

use retryguard_core::{
    FailureKind, Outcome, Ratio, Refusal, Target,
    breaker::{self, State},
    budget, bulkhead,
    call::Step,
    chance::Lowest,
    guard,
    outcome::Hints,
    target::{Change, Settings},
};

use crate::support::*;

fn swap(target: &mut Target, settings: Settings, now: u64) {
    target.replace(Arc::new(settings), at(now));
}

fn with_breaker(breaker: breaker::Settings) -> Settings {
    Settings {
        breaker: Some(breaker),
        ..plain()
    }
}

#[test]
fn an_open_breaker_stays_open_until_its_time() {
    let mut target = target(with_breaker(breaker(1)));
    one_attempt(&failed(FAULT), &mut target, at(0));
    swap(&mut target, with_breaker(breaker(5)), 10);
    assert_eq!(target.breaker_state(), State::Open);
    assert_eq!(
        refusal(call(1).start(&mut target, at(99), &mut Lowest)),
        Refusal::BreakerOpen
    );
    started(1, &mut target, at(100)).abandon(&mut target);
}

#[test]
fn failures_before_the_swap_count_after_it() {
    let mut target = target(with_breaker(breaker(3)));
    one_attempt(&failed(FAULT), &mut target, at(0));
    one_attempt(&failed(FAULT), &mut target, at(0));
    swap(&mut target, with_breaker(breaker(3)), 1);
    one_attempt(&failed(FAULT), &mut target, at(2));
    assert_eq!(target.breaker_state(), State::Open);
}

/// The probe was given under the old policy and decides under the new one.
#[test]
fn a_probe_under_way_still_decides() {
    let mut target = target(with_breaker(breaker(1)));
    one_attempt(&failed(FAULT), &mut target, at(0));
    let mut probe = started(1, &mut target, at(100));
    let mut once = breaker(1);
    once.close_after = 1;
    swap(&mut target, with_breaker(once), 110);
    assert_eq!(
        refusal(call(2).start(&mut target, at(110), &mut Lowest)),
        Refusal::ProbesBusy
    );
    end(&mut probe, 1, &Outcome::Success, &mut target, at(120));
    assert_eq!(target.breaker_state(), State::Closed);
}

/// Closing by new settings is a change like any other, and told.
#[test]
fn a_phase_that_new_settings_decide_is_told() {
    let mut target = target(with_breaker(breaker(1)));
    one_attempt(&failed(FAULT), &mut target, at(0));
    one_attempt(&Outcome::Success, &mut target, at(100));
    target.changes();
    let mut once = breaker(1);
    once.close_after = 1;
    swap(&mut target, with_breaker(once), 110);
    let closed = Change::Breaker {
        from: State::HalfOpen,
        to: State::Closed,
    };
    assert_eq!(target.changes(), [closed]);
}

#[test]
fn what_the_budget_has_spent_stays_spent() {
    let with = |percent| Settings {
        budget: Some(ratio(percent)),
        ..plain()
    };
    let mut target = target(with(50));
    (0..10).for_each(|_| one_attempt(&Outcome::Success, &mut target, at(0)));
    let mut waiting: Vec<_> = (0..3)
        .map(|ticket| {
            let mut call = started(ticket, &mut target, at(0));
            assert_eq!(end(&mut call, 1, &failed(FAULT), &mut target, at(0)), Step::Wait);
            call
        })
        .collect();
    assert_eq!(
        target.budget_balance(at(0)),
        Some(3),
        "half of thirteen, less three"
    );
    swap(&mut target, with(100), 1);
    assert_eq!(
        target.budget_balance(at(1)),
        Some(10),
        "all of thirteen, less three"
    );
    waiting.iter_mut().for_each(|call| call.abandon(&mut target));
    assert_eq!(
        target.budget_balance(at(1)),
        Some(13),
        "refunds find their way home"
    );
}

/// The reserve of the new policy was granted for all the time before it, as a burst.
#[test]
fn a_larger_reserve_accrues_from_now_on() {
    let with = |per_second| Settings {
        budget: Some(budget::Settings::Ratio {
            ratio: Ratio::ZERO,
            window: Duration::from_secs(10),
            reserve: budget::Reserve {
                per_second: Ratio::percent(per_second),
                most: 10,
            },
        }),
        ..plain()
    };
    let mut target = target(with(0));
    swap(&mut target, with(1000), 100_000);
    assert_eq!(target.budget_balance(at(100_000)), Some(1), "the first retry");
    assert_eq!(target.budget_balance(at(100_300)), Some(4));
    swap(&mut target, with(0), 100_500);
    assert_eq!(
        target.budget_balance(at(200_000)),
        Some(6),
        "what had accrued by then is kept"
    );
}

/// Every swap began a new bucket of the window, so that under frequent swaps nothing was ever forgotten.
#[test]
fn frequent_swaps_do_not_stop_the_window() {
    let settings = Settings {
        budget: Some(ratio(100)),
        ..plain()
    };
    let mut target = target(settings.clone());
    one_attempt(&Outcome::Success, &mut target, at(0));
    for now in (0..20_000).step_by(500) {
        swap(&mut target, settings.clone(), now);
    }
    assert_eq!(
        target.budget_balance(at(20_000)),
        Some(0),
        "the first attempt is long past"
    );
}

fn hysteresis() -> guard::Settings {
    guard::Settings {
        interval: ms(100),
        ..guard::Settings::default()
    }
}

fn with_guard(guard: Option<guard::Settings>) -> Settings {
    let mut settings = Settings { guard, ..plain() };
    settings.call.retries = 0;
    settings
}

#[test]
fn a_guard_that_is_off_stays_off() {
    let mut target = target(with_guard(Some(hysteresis())));
    (0..40).for_each(|_| one_attempt(&failed(FailureKind::Overload), &mut target, at(10)));
    one_attempt(&failed(FailureKind::Overload), &mut target, at(100));
    assert_eq!(target.guard_state(), guard::State::Off);
    swap(
        &mut target,
        with_guard(Some(guard::Settings {
            interval: ms(200),
            ..hysteresis()
        })),
        150,
    );
    assert_eq!(target.guard_state(), guard::State::Off);
}

/// A swap put the end of the sample off. Swapped more often than its interval, the guard was never fed.
#[test]
fn frequent_swaps_do_not_starve_the_guard() {
    let settings = with_guard(Some(hysteresis()));
    let mut target = target(settings.clone());
    for now in (0..1000).step_by(50) {
        (0..10).for_each(|_| one_attempt(&failed(FailureKind::Overload), &mut target, at(now)));
        swap(&mut target, settings.clone(), now);
    }
    assert_eq!(target.guard_state(), guard::State::Off);
}

/// Retries were counted while there was no guard, and the first sample of a new one held all of them.
#[test]
fn a_new_guard_does_not_hear_of_old_retries() {
    let retrying = |guard| Settings { guard, ..plain() };
    let mut target = target(retrying(None));
    for ticket in 0..100 {
        let mut call = started(ticket, &mut target, at(10 * ticket));
        end(&mut call, 1, &failed(FAULT), &mut target, at(10 * ticket));
        sent(call.on_timer(&mut target, at(10 * ticket + 10), &mut Lowest));
        call.abandon(&mut target);
    }
    let watched = guard::Settings {
        signal: guard::Signal::RetriesPerCall,
        ..hysteresis()
    };
    swap(&mut target, retrying(Some(watched)), 1000);
    for now in [1010, 1200] {
        (0..30).for_each(|_| one_attempt(&Outcome::Success, &mut target, at(now)));
    }
    assert_eq!(target.guard_state(), guard::State::On);
}

#[test]
fn a_removed_bulkhead_lets_its_queue_go() {
    let with = |bulkhead| Settings { bulkhead, ..plain() };
    let mut target = target(with(Some(bulkhead(1, 2))));
    let mut inside = started(0, &mut target, at(0));
    let mut waiting: Vec<_> = (1..=2)
        .map(|ticket| {
            let mut call = call(ticket);
            assert_eq!(call.start(&mut target, at(0), &mut Lowest), Step::Wait);
            call
        })
        .collect();
    assert_eq!((target.next_granted(), target.waiting()), (None, 2));
    swap(&mut target, with(None), 1);
    for (index, call) in waiting.iter_mut().enumerate() {
        assert_eq!(target.next_granted(), Some(bulkhead::Ticket(index as u64 + 1)));
        sent(call.on_place(&mut target, at(1), &mut Lowest));
    }
    assert_eq!((target.next_granted(), target.in_flight()), (None, 3));
    inside.abandon(&mut target);
    waiting.iter_mut().for_each(|call| call.abandon(&mut target));
    assert_eq!(target.in_flight(), 0);
}

#[test]
fn who_is_in_counts_against_a_limit_that_comes_later() {
    let with = |bulkhead| Settings { bulkhead, ..plain() };
    let mut target = target(with(None));
    let mut calls: Vec<_> = (0..2).map(|ticket| started(ticket, &mut target, at(0))).collect();
    swap(&mut target, with(Some(bulkhead(2, 0))), 1);
    assert_eq!(
        refusal(call(9).start(&mut target, at(1), &mut Lowest)),
        Refusal::BulkheadFull
    );
    calls.iter_mut().for_each(|call| call.abandon(&mut target));
    started(9, &mut target, at(1)).abandon(&mut target);
}

/// An adaptive limit that came by a swap began at its maximum (the "no limit" of before, clamped), and
/// bounds in the wrong order were a panic.
#[test]
fn an_adaptive_limit_that_comes_later_starts_where_it_says() {
    let gradient = |initial, least, most| {
        let limit = bulkhead::Limit::Gradient {
            initial,
            least,
            most,
            tolerance: Ratio::percent(150),
        };
        Some(bulkhead::Settings {
            limit,
            ..bulkhead(1, 0)
        })
    };
    let with = |bulkhead| Settings { bulkhead, ..plain() };
    let mut target = target(with(None));
    swap(&mut target, with(gradient(20, 5, 200)), 1);
    assert_eq!(target.limit(), 20);
    swap(&mut target, with(gradient(20, 50, 10)), 2);
    assert_eq!(target.limit(), 50, "the floor wins");
    swap(&mut target, with(gradient(0, 0, 10)), 3);
    assert_eq!(
        target.limit(),
        10,
        "within one mode the limit goes on from where it was"
    );
    let mut closed = crate::support::target(with(gradient(0, 0, 0)));
    started(1, &mut closed, at(0)).abandon(&mut closed);
}

/// What the target asked of all clients outlives the policy under which it asked.
#[test]
fn a_closed_gate_stays_closed() {
    let mut target = target(plain());
    one_attempt(
        &hinted(FailureKind::Overload, retry_after(1000)),
        &mut target,
        at(0),
    );
    let mut other = plain();
    other.gate.spread = Ratio::ZERO;
    swap(&mut target, other, 10);
    assert_eq!(
        refusal(call(1).start(&mut target, at(999), &mut Lowest)),
        Refusal::RetryAfter
    );
    started(1, &mut target, at(1000)).abandon(&mut target);
}

/// A new policy is in force at once: a retry that still waits for its time is not sent against it.
#[test]
fn a_waiting_retry_obeys_a_lowered_limit_and_gives_its_charge_back() {
    let mut settings = Settings {
        budget: Some(ratio(100)),
        ..plain()
    };
    let mut target = target(settings.clone());
    let mut call = started(1, &mut target, at(0));
    end(&mut call, 1, &failed(FAULT), &mut target, at(0));
    assert_eq!(target.budget_balance(at(0)), Some(0));
    settings.call.retries = 0;
    swap(&mut target, settings, 5);
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::AttemptsUsed
    );
    assert_eq!(target.budget_balance(at(10)), Some(1));
}

#[test]
fn a_hedge_that_is_due_obeys_a_policy_without_hedging() {
    let with = |hedge| Settings { hedge, ..plain() };
    let mut target = target(with(Some(hedge(10, 1))));
    let mut call = started(1, &mut target, at(0));
    swap(&mut target, with(None), 5);
    assert_eq!(call.on_timer(&mut target, at(10), &mut Lowest), Step::Wait);
    assert_eq!((call.hedges(), call.next_timer()), (0, None));
    call.abandon(&mut target);
}

/// A pass of the breaker that a swap removed was taken for one of the breaker that a later swap brought:
/// it could close it, count as its probe, or meet an open phase of its own number, which is a panic.
#[test]
fn a_pass_of_a_removed_breaker_means_nothing_to_the_next() {
    let mut target = target(with_breaker(breaker(1)));
    one_attempt(&failed(FAULT), &mut target, at(0));
    one_attempt(&Outcome::Success, &mut target, at(100));
    one_attempt(&Outcome::Success, &mut target, at(100));
    assert_eq!(target.breaker_state(), State::Closed);
    let mut late = started(1, &mut target, at(100));
    swap(&mut target, plain(), 100);
    swap(&mut target, with_breaker(breaker(1)), 100);
    one_attempt(&failed(FAULT), &mut target, at(100));
    one_attempt(&failed(FAULT), &mut target, at(200));
    assert_eq!(target.breaker_state(), State::Open);
    end(&mut late, 1, &Outcome::Success, &mut target, at(210));
    assert_eq!(target.breaker_state(), State::Open);
    late.abandon(&mut target);
}

/// A refund to the next budget would let one retry more through than it allows.
#[test]
fn a_charge_of_a_removed_budget_means_nothing_to_the_next() {
    let settings = Settings {
        budget: Some(ratio(100)),
        ..plain()
    };
    let mut target = target(settings.clone());
    let mut old = started(1, &mut target, at(0));
    end(&mut old, 1, &failed(FAULT), &mut target, at(0));
    swap(&mut target, plain(), 1);
    swap(&mut target, settings, 1);
    let mut new = started(2, &mut target, at(1));
    end(&mut new, 1, &failed(FAULT), &mut target, at(1));
    old.abandon(&mut target);
    assert_eq!(target.budget_balance(at(1)), Some(0));
    new.abandon(&mut target);
    assert_eq!(target.budget_balance(at(1)), Some(1));
}

/// The mark of the target outlives a swap, too: it is asked before anything is spent.
#[test]
fn a_do_not_retry_mark_outlives_a_swap() {
    let mut target = target(plain());
    let mark = Hints {
        do_not_retry: true,
        ..Hints::NONE
    };
    one_attempt(&hinted(FailureKind::Overload, mark), &mut target, at(0));
    swap(
        &mut target,
        Settings {
            budget: Some(ratio(100)),
            ..plain()
        },
        10,
    );
    let mut call = started(1, &mut target, at(20));
    let step = end(&mut call, 1, &failed(FAULT), &mut target, at(30));
    assert_eq!(refusal(step), Refusal::TargetForbids);
    assert_eq!(target.budget_balance(at(30)), Some(1));
}

/// Where several decisions fell due together only the last was told, and an operator saw retries come back
/// that had never gone.
#[test]
fn every_decision_of_the_guard_is_told() {
    let mut target = target(with_guard(Some(guard::Settings::default())));
    (0..40).for_each(|_| one_attempt(&failed(FailureKind::Overload), &mut target, at(10)));
    one_attempt(&Outcome::Success, &mut target, at(64_000));
    let told: Vec<_> = target
        .changes()
        .into_iter()
        .map(|change| match change {
            Change::Guard(decision) => (decision.from, decision.to),
            other @ Change::Breaker { .. } => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told.first().map(|change| change.0), Some(guard::State::On));
    assert_eq!(told.last().map(|change| change.1), Some(target.guard_state()));
    assert!(told.windows(2).all(|pair| pair[0].1 == pair[1].0), "{told:?}");
    assert!(told.len() > 1);
}
