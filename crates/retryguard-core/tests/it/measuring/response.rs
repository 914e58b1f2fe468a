//! The guard that measures, in small worlds of its own.

use std::{cmp::Reverse, collections::BinaryHeap};

use retryguard_core::{
    Call, Chance, FailureKind, Outcome, Ratio, Target,
    backoff::Growth,
    call::Step,
    chance::{Highest, Lowest},
    guard::{self, Mode, Response, WallClock},
    target::{Change, Settings},
};

use crate::support::*;

const LATENCY: u64 = 20;

fn measured() -> Settings {
    let mut settings = Settings {
        guard: Some(guard::Settings {
            mode: Mode::Response(Response::default()),
            ..guard::Settings::default()
        }),
        budget: Some(ratio(20)),
        ..plain()
    };
    settings.call.retries = 10;
    settings.call.deadline = Some(ms(3000));
    settings
}

/// As [`run_with`], where every answer takes as long.
fn run(
    clock: Option<WallClock>,
    seconds: u64,
    world: impl FnMut(u64, &mut SplitMix) -> Outcome,
) -> (Target, f64, f64) {
    run_with(clock, seconds, |_| LATENCY, world)
}

/// One client that makes a call in 10 ms, for `seconds`. `latency` and `world` say how long an attempt that starts at a time
/// takes and what becomes of it. Returns the target, the share of calls that succeeded in the last third, and their attempts.
fn run_with(
    clock: Option<WallClock>,
    seconds: u64,
    latency: impl Fn(u64) -> u64,
    mut world: impl FnMut(u64, &mut SplitMix) -> Outcome,
) -> (Target, f64, f64) {
    let mut target = target(measured());
    target.set_clock(clock);
    let mut chance = SplitMix(7);
    let mut calls: Vec<Option<Call>> = Vec::new();
    // What happens when: a call begins (none), its timer is due (0), or an attempt of it ends (its number).
    let mut events = BinaryHeap::new();
    (0..seconds * 100).for_each(|number| events.push(Reverse((number * 10, usize::MAX, 0, 0))));
    let (mut ended, mut succeeded, mut attempts) = (0.0, 0.0, 0.0);
    while let Some(Reverse((now, index, number, started))) = events.pop() {
        let (index, step) = if index == usize::MAX {
            calls.push(Some(call(calls.len() as u64)));
            let index = calls.len() - 1;
            let call = calls[index].as_mut().expect("a call that is driven is there");
            (index, call.start(&mut target, at(now), &mut chance))
        } else {
            let Some(call) = calls[index].as_mut() else {
                continue;
            };
            let step = if number == 0 {
                call.on_timer(&mut target, at(now), &mut chance)
            } else {
                let outcome = world(started, &mut chance);
                call.on_outcome(number, &outcome, &mut target, at(now), &mut chance)
            };
            (index, step)
        };
        let late = now > seconds * 1000 * 2 / 3;
        match step {
            Step::Send(attempt) => {
                attempts += f64::from(u8::from(late));
                events.push(Reverse((now + latency(now), index, attempt.number, now)));
            }
            Step::Done(verdict) => {
                if late {
                    let success = matches!(verdict, retryguard_core::call::Verdict::Success { .. });
                    ended += 1.0;
                    succeeded += f64::from(u8::from(success));
                }
                calls[index] = None;
                continue;
            }
            Step::Wait | Step::Cancel(_) => {}
        }
        let timer = calls[index].as_ref().and_then(Call::next_timer);
        if let Some(due) = timer {
            let due = due.as_nanos().div_ceil(1_000_000).max(now + 1);
            events.push(Reverse((due, index, 0, now)));
        }
    }
    (target, succeeded / ended, attempts / ended)
}

const CLOCK: Option<WallClock> = Some(WallClock {
    offset: 1_700_000_000_000_000_000,
    salt: 42,
});

#[test]
fn a_few_failures_of_a_target_that_has_become_slow_are_retried() {
    let slow = |now: u64| if now < 20_000 { LATENCY } else { 10 * LATENCY };
    let (_, succeeded, attempts) = run_with(CLOCK, 30, slow, |now, chance| {
        if now >= 20_000 && chance.happens(Ratio::percent(5)) {
            failed(FailureKind::Timeout)
        } else {
            Outcome::Success
        }
    });
    assert!(succeeded > 0.99, "{succeeded}");
    assert!(attempts < 1.1, "{attempts}");
}

#[test]
fn random_failures_are_retried_beyond_the_budget() {
    let random = |_: u64, chance: &mut SplitMix| {
        if chance.happens(Ratio::percent(40)) {
            failed(FailureKind::Overload)
        } else {
            Outcome::Success
        }
    };
    let (target, success, _) = run(CLOCK, 60, random);
    let gain = target.gain().unwrap();
    assert!((gain.value - 0.6).abs() < 0.25, "{gain:?}");
    assert_eq!(target.guard_state(), guard::State::On);
    assert!(success > 0.98, "{success}");
}

/// The policy of [`measured`] without a budget; the delays grow from 10 ms to a second.
fn growing() -> Settings {
    let mut settings = Settings {
        budget: None,
        ..measured()
    };
    settings.call.backoff.growth = Growth::Linear;
    settings.call.backoff.cap = ms(1000);
    settings
}

/// The wait before the first retry of a call to a target that has failed `failures` times in a row.
fn first_wait(settings: Settings, failures: u64, chance: &mut impl Chance) -> u64 {
    let mut target = target(settings);
    let mut last = None;
    for number in 0..=failures {
        let now = at(100 * number);
        let mut call = call(number);
        assert!(matches!(call.start(&mut target, now, chance), Step::Send(_)));
        let step = call.on_outcome(1, &failed(FailureKind::Overload), &mut target, now, chance);
        assert_eq!(step, Step::Wait);
        last = call.next_timer().map(|due| due.since(now));
        call.abandon(&mut target);
    }
    let wait = last.expect("a call that waits has a timer");
    u64::try_from(wait.as_millis()).expect("a short wait")
}

/// A client that tried again 10 ms and 30 ms after a failure met the same fault each time.
#[test]
fn where_most_attempts_fail_retries_are_spread_over_the_time_that_is_left() {
    let mut settings = growing();
    settings.call.deadline = Some(ms(1000));
    assert_eq!(first_wait(settings.clone(), 3, &mut Highest), 10);
    let spread = first_wait(settings.clone(), 12, &mut Highest);
    assert!((500..=700).contains(&spread), "{spread}");
    assert_eq!(first_wait(settings, 12, &mut Lowest), 10);
}

#[test]
fn retries_are_spread_no_further_than_the_largest_delay_of_the_schedule() {
    assert_eq!(first_wait(growing(), 12, &mut Highest), 1000);
    let mut constant = growing();
    constant.call.backoff.growth = Growth::Constant;
    assert_eq!(first_wait(constant, 12, &mut Highest), 10);
}

#[test]
fn without_a_deadline_nothing_is_spread() {
    let mut settings = growing();
    settings.call.deadline = None;
    assert_eq!(first_wait(settings, 12, &mut Highest), 10);
}

#[test]
fn another_guard_leaves_the_delays_of_the_policy_as_they_are() {
    let settings = Settings {
        guard: None,
        ..growing()
    };
    assert_eq!(first_wait(settings, 12, &mut Highest), 10);
}

/// Retries succeed as often as in the test before; what differs is when attempts fail.
#[test]
fn failures_that_come_with_slow_answers_suspend_retries() {
    let is_slow = |started: u64| started / 1000 % 2 == 1;
    let latency = |started| if is_slow(started) { 4 * LATENCY } else { LATENCY };
    let fails = |started: u64, chance: &mut SplitMix| {
        let share = if is_slow(started) { 60 } else { 5 };
        if chance.happens(Ratio::percent(share)) {
            failed(FailureKind::Overload)
        } else {
            Outcome::Success
        }
    };
    let (mut target, _, attempts) = run_with(CLOCK, 60, latency, fails);
    assert_eq!(target.guard_state(), guard::State::Off);
    assert_eq!(target.guard_share(), Ratio::ZERO, "suspended");
    assert!(attempts < 1.1, "{attempts}");
    let changes = target.changes();
    let by_load = |change: &Change| matches!(change, Change::Guard(it) if it.reason == guard::Reason::Load);
    assert!(changes.iter().any(by_load), "{changes:?}");
}

/// A surge is over, and what fails since then is the target's own fault. Retries stayed suspended for as long as the client
/// remembered the surge.
#[test]
fn failures_that_no_load_causes_are_retried_after_a_surge() {
    const OVER: u64 = 60_000;
    let is_slow = |started: u64| started < OVER && started / 1000 % 2 == 1;
    let latency = |started| if is_slow(started) { 4 * LATENCY } else { LATENCY };
    let fails = |started: u64, chance: &mut SplitMix| {
        let (share, kind) = match started {
            OVER.. => (25, FailureKind::Fault),
            _ if is_slow(started) => (60, FailureKind::Overload),
            _ => (5, FailureKind::Overload),
        };
        if chance.happens(Ratio::percent(share)) {
            failed(kind)
        } else {
            Outcome::Success
        }
    };
    let (target, ..) = run_with(CLOCK, OVER / 1000, latency, fails);
    assert_eq!(target.guard_state(), guard::State::Off);
    let (target, ..) = run_with(CLOCK, OVER / 1000 + 3, latency, fails);
    assert_eq!(target.guard_state(), guard::State::On);
}

/// How unsure the guess of the gain is after timeouts beside answers that take 300 of 1000 ms, where answers are late from this share
/// on.
fn error_of_guess(late: Option<u32>) -> f64 {
    let mut settings = measured();
    settings.call.deadline = Some(ms(1000));
    settings.call.retries = 0;
    settings.bulkhead = late.map(|late| retryguard_core::bulkhead::Settings {
        limit: retryguard_core::bulkhead::Limit::Adaptive(retryguard_core::limiter::Settings {
            late: Ratio::percent(late),
            ..retryguard_core::limiter::Settings::default()
        }),
        ..retryguard_core::bulkhead::Settings::default()
    });
    let mut target = target(settings);
    for number in 0..200 {
        let now = 2000 * number;
        let mut call = call(number);
        let step = call.start(&mut target, at(now), &mut Lowest);
        if !matches!(step, Step::Send(_)) {
            // The limit lets it wait.
        } else if number % 4 == 3 {
            let due = call.next_timer().expect("an attempt ends with its call");
            call.on_timer(&mut target, due, &mut Lowest);
        } else {
            end(&mut call, 1, &Outcome::Success, &mut target, at(now + 300));
        }
        call.abandon(&mut target);
    }
    target.gain().expect("the guard measures").error
}

/// A timeout beside quick answers is a lost message. What is quick follows the policy's `late`, as the limit does.
#[test]
fn timeouts_speak_of_load_from_the_share_on_that_the_policy_calls_late() {
    let close = |error: f64, wanted: f64| (error - wanted).abs() < 0.02;
    for (late, wanted) in [(None, 0.2), (Some(40), 0.2), (Some(20), 0.3)] {
        let error = error_of_guess(late);
        assert!(close(error, wanted), "{late:?}: {error}");
    }
}

/// A target that accepts 50 attempts a second of the 100 that come: every retry that succeeds displaces another call.
fn table() -> impl FnMut(u64, &mut SplitMix) -> Outcome {
    let (mut second, mut taken) = (0, 0);
    move |started, _| {
        if started / 200 != second {
            (second, taken) = (started / 200, 0);
        }
        taken += 1;
        if taken <= 10 {
            Outcome::Success
        } else {
            failed(FailureKind::Overload)
        }
    }
}

#[test]
fn retries_that_displace_others_are_not_multiplied() {
    let (target, success, attempts) = run(CLOCK, 120, table());
    let gain = target.gain().unwrap();
    assert!(gain.value < 0.3, "{gain:?}");
    assert_ne!(target.guard_state(), guard::State::On);
    assert!((success - 0.5).abs() < 0.05, "{success}");
    assert!(attempts < 1.35, "{attempts}");
}

/// A clock that is not to be trusted leaves the ordinary budget.
#[test]
fn without_a_clock_the_budget_holds() {
    let (target, _, attempts) = run(None, 60, |_, chance| {
        if chance.happens(Ratio::percent(40)) {
            failed(FailureKind::Overload)
        } else {
            Outcome::Success
        }
    });
    assert_eq!(target.guard_state(), guard::State::Ramping { step: 0 });
    assert!(attempts <= 1.21, "{attempts}");
}

#[test]
fn where_nothing_succeeds_retries_are_suspended() {
    let (target, success, attempts) = run(CLOCK, 60, |_, _| failed(FailureKind::Timeout));
    assert_eq!(target.guard_state(), guard::State::Off);
    assert!(success == 0.0 && attempts < 1.1, "{attempts}");
}

#[test]
fn where_little_fails_nothing_is_put_off() {
    let mut longest = 0;
    let (_, success, _) = run(CLOCK, 30, |started, _| {
        longest = longest.max(started);
        if started % 2000 == 0 {
            failed(FailureKind::Fault)
        } else {
            Outcome::Success
        }
    });
    assert!(success > 0.999, "{success}");
    assert!(
        longest < 30_200,
        "the last retry came within its back-off: {longest}"
    );
}

fn mostly(share: u32, kind: FailureKind) -> impl FnMut(u64, &mut SplitMix) -> Outcome {
    move |_, chance| {
        if chance.happens(Ratio::percent(share)) {
            failed(kind)
        } else {
            Outcome::Success
        }
    }
}

/// One replica of two is gone. A retry is no more load than the attempt that reached nothing.
#[test]
fn a_retry_takes_the_place_of_an_attempt_that_reached_nothing() {
    let (_, rejected, _) = run(None, 60, mostly(50, FailureKind::Overload));
    assert!(rejected < 0.7, "{rejected}: the budget bounds these");
    let (target, unreachable, _) = run(None, 60, mostly(50, FailureKind::Unreachable));
    assert_eq!(target.guard_state(), guard::State::Ramping { step: 0 });
    assert!(unreachable > 0.99, "{unreachable}");
}

#[test]
fn nothing_takes_its_place_where_nothing_is_reached() {
    let (_, _, attempts) = run(CLOCK, 60, mostly(100, FailureKind::Unreachable));
    assert!(attempts < 1.1, "{attempts}");
}

/// Such a retry may have to wait for a place. It is sent when it has one, though other retries are suspended.
#[test]
fn a_retry_that_waits_to_take_a_place_is_sent_once_it_has_one() {
    let mut settings = measured();
    settings.bulkhead = Some(retryguard_core::bulkhead::Settings {
        wait: ms(1000),
        ..bulkhead(1, 8)
    });
    let mut target = target(settings);
    target.set_clock(CLOCK);
    // Every second call is rejected, and so is every retry.
    let mut now = 0;
    for number in 0..2000 {
        let mut call = started(number, &mut target, at(now));
        if number % 2 == 0 {
            end(&mut call, 1, &Outcome::Success, &mut target, at(now + 1));
        } else {
            end(
                &mut call,
                1,
                &failed(FailureKind::Overload),
                &mut target,
                at(now + 1),
            );
            if let Some(due) = call.next_timer()
                && let Step::Send(attempt) =
                    call.on_timer(&mut target, due, &mut retryguard_core::chance::Lowest)
            {
                now = due.as_nanos().div_ceil(1_000_000);
                end(
                    &mut call,
                    attempt.number,
                    &failed(FailureKind::Overload),
                    &mut target,
                    at(now + 1),
                );
            }
        }
        call.abandon(&mut target);
        now += 10;
    }
    assert_eq!(target.guard_state(), guard::State::Off);
    let mut waits = started(1, &mut target, at(now));
    assert_eq!(
        end(
            &mut waits,
            1,
            &failed(FailureKind::Unreachable),
            &mut target,
            at(now)
        ),
        Step::Wait
    );
    let mut other = started(2, &mut target, at(now));
    let due = waits.next_timer().expect("it waits before its retry");
    let chance = &mut retryguard_core::chance::Lowest;
    assert_eq!(
        waits.on_timer(&mut target, due, chance),
        Step::Wait,
        "for a place"
    );
    let later = due.after(ms(5));
    end(&mut other, 1, &Outcome::Success, &mut target, later);
    assert_eq!(target.next_granted(), Some(retryguard_core::bulkhead::Ticket(1)));
    sent(waits.on_place(&mut target, later, chance));
    waits.abandon(&mut target);
}
