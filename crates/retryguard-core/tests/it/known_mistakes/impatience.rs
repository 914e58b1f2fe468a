//! Callers that are less patient than the policy.

use retryguard_core::{
    Call, Deadline, Outcome, Target, breaker::State, call::Facts, chance::Lowest, guard, target::Settings,
};

use crate::support::*;

fn listening() -> Settings {
    Settings {
        breaker: Some(breaker(5)),
        ..plain()
    }
}

/// A call with a deadline of its own that the target does not meet.
fn cut_short(target: &mut Target, from: u64, given: u64) {
    let mut call = Call::new(&Facts {
        deadline: Deadline::at(at(from + given)),
        ..facts(1)
    });
    sent(call.start(target, at(from), &mut Lowest));
    call.on_timer(target, at(from + given), &mut Lowest);
    assert!(call.is_over());
}

fn succeed(target: &mut Target, from: u64, after: u64) {
    let mut call = started(1, target, at(from));
    end(&mut call, 1, &Outcome::Success, target, at(from + after));
}

/// `retryguard-deadline-ms: 5` from outside opened the breaker of a target that answers in 20 ms.
#[test]
fn a_deadline_that_no_healthy_target_can_meet_says_nothing_of_it() {
    for answers in [0, 1] {
        let mut target = target(Settings {
            guard: Some(guard::Settings::default()),
            ..listening()
        });
        (0..answers).for_each(|number| succeed(&mut target, 100 * number, 20));
        (0..1000).for_each(|number| cut_short(&mut target, 1000 + 10 * number, 5));
        assert_eq!(target.breaker_state(), State::Closed);
        assert_eq!(target.guard_state(), guard::State::On);
        assert_eq!(target.in_flight(), 0);
    }
}

/// A server that is told a deadline of 5 ms says "too late" itself, a moment before our own timer does.
#[test]
fn nor_does_the_targets_own_word_that_it_was_too_late() {
    let mut target = target(listening());
    for number in 0..100 {
        let mut call = Call::new(&Facts {
            deadline: Deadline::at(at(10 * number + 5)),
            ..facts(1)
        });
        sent(call.start(&mut target, at(10 * number), &mut Lowest));
        let late = failed(retryguard_core::FailureKind::Timeout);
        end(&mut call, 1, &late, &mut target, at(10 * number + 4));
    }
    assert_eq!(target.breaker_state(), State::Closed);
}

/// Callers that wait for a second, under a policy of ten, never saw the breaker of a silent target open.
#[test]
fn a_target_that_swallows_requests_opens_the_breaker_of_impatient_callers() {
    let mut silent = target(listening());
    (0..4).for_each(|number| cut_short(&mut silent, 2000 * number, 1000));
    assert_eq!(silent.breaker_state(), State::Closed);
    cut_short(&mut silent, 10_000, 1000);
    assert_eq!(silent.breaker_state(), State::Open);
    // One that is known to be quick is given up on sooner.
    let mut quick = target(listening());
    succeed(&mut quick, 0, 20);
    (0..5).for_each(|number| cut_short(&mut quick, 1000 + 100 * number, 80));
    assert_eq!(quick.breaker_state(), State::Open);
}

/// The same where the caller drops the call instead of setting a deadline.
#[test]
fn a_call_that_its_caller_drops_is_a_timeout_once_it_has_had_its_time() {
    let mut target = target(listening());
    succeed(&mut target, 0, 20);
    for number in 0..8 {
        let mut call = started(1, &mut target, at(1000 + 100 * number));
        call.give_up(&mut target, at(1000 + 100 * number + 79));
        assert!(call.is_over());
    }
    assert_eq!(
        target.breaker_state(),
        State::Closed,
        "79 ms say nothing of a target of 20 ms"
    );
    for number in 0..5 {
        let mut call = started(1, &mut target, at(10_000 + 100 * number));
        call.give_up(&mut target, at(10_000 + 100 * number + 80));
    }
    assert_eq!((target.breaker_state(), target.in_flight()), (State::Open, 0));
}

/// A probe that its caller gave up on early frees its place and decides nothing.
#[test]
fn a_probe_that_is_cut_short_frees_its_place() {
    let mut target = target(listening());
    (0..5).for_each(|_| one_attempt(&failed(FAULT), &mut target, at(0)));
    assert_eq!(target.breaker_state(), State::Open);
    (0..9).for_each(|number| cut_short(&mut target, 200 + 10 * number, 5));
    assert_eq!(target.breaker_state(), State::HalfOpen);
    succeed(&mut target, 300, 1);
    succeed(&mut target, 310, 1);
    assert_eq!(target.breaker_state(), State::Closed);
}
