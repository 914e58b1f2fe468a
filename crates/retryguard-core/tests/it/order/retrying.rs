//! After a failure: not retryable → retried below → forbidden by the target → not idempotent → not replayable
//! → attempts used → delay too long → deadline → gate → guard → budget.

use retryguard_core::{
    Call, Deadline, Failure, FailureKind, Outcome, Refusal, Target,
    call::{Facts, Step},
    chance::{Highest, Lowest},
    outcome::Hints,
    target::Settings,
};

use crate::support::*;

/// Every reason not to retry, in the documented order.
const ORDER: [Refusal; 11] = [
    Refusal::NotRetryable,
    Refusal::RetriedBelow,
    Refusal::TargetForbids,
    Refusal::NotIdempotent,
    Refusal::NotReplayable,
    Refusal::AttemptsUsed,
    Refusal::DelayTooLong,
    Refusal::Deadline,
    Refusal::TargetForbids,
    Refusal::Guard,
    Refusal::Budget,
];

/// The place in the order of what the target forbids to all calls, and not only to the failed call.
const GATE: usize = 8;

/// A failed call against which exactly the reasons of `places` speak: what is it told?
fn told(places: &[usize]) -> (Refusal, Target) {
    let has = |place: usize| places.contains(&place);
    let mut settings = plain();
    settings.call.retries = if has(5) { 0 } else { 2 };
    if has(6) {
        settings.call.backoff.stop_beyond = Some(ms(1));
    }
    if has(9) {
        settings.guard = Some(guard_off());
    }
    settings.budget = Some(ratio(if has(10) { 0 } else { 100 }));
    let mut target = target(settings);
    if has(GATE) {
        let mark = Hints {
            do_not_retry: true,
            ..Hints::NONE
        };
        one_attempt(&hinted(FailureKind::Overload, mark), &mut target, at(0));
    }
    let mut call = Call::new(&Facts {
        idempotent: !has(3),
        replayable: !has(4),
        deadline: if has(7) {
            Deadline::at(at(5))
        } else {
            Deadline::NONE
        },
        ..facts(1)
    });
    sent(call.start(&mut target, at(1), &mut Lowest));
    let failure = Failure {
        retryable: !has(0),
        hints: Hints {
            retried_below: has(1).into(),
            do_not_retry: has(2),
            ..Hints::NONE
        },
        ..Failure::new(FAULT)
    };
    let step = end(&mut call, 1, &Outcome::Failure(failure), &mut target, at(1));
    (refusal(step), target)
}

#[test]
fn each_reason_alone_is_told() {
    for (place, expected) in ORDER.into_iter().enumerate() {
        assert_eq!(told(&[place]).0, expected, "place {place}");
    }
}

/// All pairs, and so the adjacent ones too.
#[test]
fn of_two_reasons_the_first_is_told() {
    for (first, expected) in ORDER.into_iter().enumerate() {
        for second in first + 1..ORDER.len() {
            assert_eq!(told(&[first, second]).0, expected, "{first} before {second}");
        }
    }
}

/// What is refused for any other reason has not been paid for.
#[test]
fn only_what_the_budget_allows_is_charged() {
    for place in 0..ORDER.len() - 1 {
        let (_, mut target) = told(&[place]);
        // The mark that closes the gate came with a call of its own.
        let firsts = if place == GATE { 2 } else { 1 };
        assert_eq!(target.budget_balance(at(1)), Some(firsts), "place {place}");
    }
}

/// The gate also puts a retry off; where it ends up after the deadline, the deadline is what is told.
#[test]
fn a_retry_after_beyond_the_deadline_is_a_matter_of_the_deadline() {
    let mut target = target(Settings {
        budget: Some(ratio(100)),
        ..plain()
    });
    let mut call = Call::new(&Facts {
        deadline: Deadline::at(at(500)),
        ..facts(1)
    });
    sent(call.start(&mut target, at(0), &mut Lowest));
    let overload = hinted(FailureKind::Overload, retry_after(500));
    let step = call.on_outcome(1, &overload, &mut target, at(0), &mut Highest);
    assert_eq!(refusal(step), Refusal::Deadline);
    assert_eq!(target.budget_balance(at(0)), Some(1));
}

/// A hedge needs what a retry needs. There is no refusal to see, but nothing is sent and nothing is spent.
#[test]
fn a_hedge_asks_replay_gate_guard_and_budget() {
    let hedging = || Settings {
        hedge: Some(hedge(10, 1)),
        budget: Some(ratio(100)),
        ..plain()
    };
    let tried = |target: &mut Target, call: &mut Call| {
        let step = call.on_timer(target, at(10), &mut Lowest);
        call.abandon(target);
        step
    };
    let mut plain_target = target(hedging());
    let mut call = started(1, &mut plain_target, at(0));
    sent(tried(&mut plain_target, &mut call));

    let mut call = started(2, &mut plain_target, at(0));
    call.forbid_replay();
    assert_eq!(
        (tried(&mut plain_target, &mut call), call.sent()),
        (Step::Wait, 1)
    );

    for hints in [
        retry_after(500),
        Hints {
            do_not_retry: true,
            ..Hints::NONE
        },
    ] {
        let mut gated = target(hedging());
        let mut call = started(1, &mut gated, at(0));
        one_attempt(&hinted(FailureKind::Overload, hints), &mut gated, at(0));
        assert_eq!(
            (tried(&mut gated, &mut call), gated.budget_balance(at(10))),
            (Step::Wait, Some(2))
        );
    }

    let mut guarded = target(Settings {
        guard: Some(guard_off()),
        ..hedging()
    });
    let mut call = started(1, &mut guarded, at(0));
    assert_eq!(
        (tried(&mut guarded, &mut call), guarded.budget_balance(at(10))),
        (Step::Wait, Some(1))
    );

    let mut broke = target(Settings {
        budget: Some(ratio(99)),
        ..hedging()
    });
    let mut call = started(1, &mut broke, at(0));
    assert_eq!(tried(&mut broke, &mut call), Step::Wait);
}

/// A body that turns out too long to be kept while the retry already waits for its time.
#[test]
fn a_decided_retry_is_not_sent_when_replay_is_forbidden_meanwhile() {
    let mut target = target(Settings {
        budget: Some(ratio(100)),
        ..plain()
    });
    let mut call = started(1, &mut target, at(0));
    end(&mut call, 1, &failed(FAULT), &mut target, at(0));
    call.forbid_replay();
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::NotReplayable
    );
    assert_eq!(target.budget_balance(at(10)), Some(1), "the charge is given back");
}

#[test]
fn a_late_timer_finds_the_deadline_passed_and_gives_the_charge_back() {
    let mut target = target(Settings {
        budget: Some(ratio(100)),
        ..plain()
    });
    let mut call = Call::new(&Facts {
        deadline: Deadline::at(at(50)),
        ..facts(1)
    });
    sent(call.start(&mut target, at(0), &mut Lowest));
    assert_eq!(end(&mut call, 1, &failed(FAULT), &mut target, at(0)), Step::Wait);
    assert_eq!(target.budget_balance(at(0)), Some(0));
    assert_eq!(
        refusal(call.on_timer(&mut target, at(50), &mut Lowest)),
        Refusal::Deadline
    );
    assert_eq!(target.budget_balance(at(50)), Some(1));
}
