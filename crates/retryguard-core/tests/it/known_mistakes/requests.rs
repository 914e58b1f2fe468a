//! Requests that are sent again although they must not be, and refusals that are not visible.

use std::collections::HashSet;

use retryguard_core::{
    Call, Deadline, FailureKind, Outcome, Refusal,
    call::{Facts, Step, Verdict},
    chance::{Highest, Lowest},
    target::Settings,
};

use crate::support::*;

/// A request that is not idempotent is not done twice, unless it certainly never arrived.
#[test]
fn every_method_retried_on_any_5xx() {
    let once = Facts {
        idempotent: false,
        ..facts(1)
    };
    let arrived = FailureKind::ALL
        .into_iter()
        .filter(|kind| *kind != FailureKind::Unreachable);
    for kind in arrived {
        let mut target = target(plain());
        let mut call = Call::new(&once);
        sent(call.start(&mut target, at(0), &mut Lowest));
        let expected = if kind.retryable() {
            Refusal::NotIdempotent
        } else {
            Refusal::NotRetryable
        };
        assert_eq!(
            refusal(end(&mut call, 1, &failed(kind), &mut target, at(0))),
            expected
        );
    }
    let mut target = target(plain());
    let mut call = Call::new(&once);
    sent(call.start(&mut target, at(0), &mut Lowest));
    let step = end(
        &mut call,
        1,
        &failed(FailureKind::Unreachable),
        &mut target,
        at(0),
    );
    assert_eq!(step, Step::Wait);
    call.abandon(&mut target);
}

/// A body that turned out too long to be kept is not sent again, neither as a retry nor as a hedge.
#[test]
fn bodies_that_cannot_be_replayed() {
    let mut target = target(Settings {
        hedge: Some(hedge(10, 1)),
        ..plain()
    });
    let mut call = started(1, &mut target, at(0));
    assert_eq!(call.next_timer(), Some(at(10)), "a hedge is due");
    call.forbid_replay();
    assert_eq!(call.next_timer(), None);
    assert_eq!(call.on_timer(&mut target, at(10), &mut Lowest), Step::Wait);
    let step = end(&mut call, 1, &failed(FAULT), &mut target, at(11));
    assert_eq!(refusal(step), Refusal::NotReplayable);
}

/// The call that met a Retry-After waits that long, and so do all others.
#[test]
fn retry_after_ignored() {
    let mut target = target(plain());
    let mut call = started(1, &mut target, at(0));
    let mut other = started(2, &mut target, at(0));
    let wait = hinted(FailureKind::Overload, retry_after(700));
    assert_eq!(end(&mut call, 1, &wait, &mut target, at(0)), Step::Wait);
    assert_eq!(call.next_timer(), Some(at(700)), "not after 10 ms");
    assert_eq!(end(&mut other, 1, &failed(FAULT), &mut target, at(1)), Step::Wait);
    assert_eq!(
        other.next_timer(),
        Some(at(700)),
        "although its own failure said nothing"
    );
    let step = crate::support::call(3).start(&mut target, at(699), &mut Lowest);
    let Step::Done(Verdict::Refused { refusal, retry_after }) = step else {
        panic!("{step:?}")
    };
    assert_eq!((refusal, retry_after), (Refusal::RetryAfter, Some(ms(1))));
    call.abandon(&mut target);
    other.abandon(&mut target);
}

/// What a target asks for reaches the caller, but no longer than is believed and never the same for all.
#[test]
fn retry_after_handed_on_raw() {
    for (chance, expected) in [(0, 30_000), (1, 45_000)] {
        let mut target = target(plain());
        let mut call = started(1, &mut target, at(0));
        let mut day = hinted(FailureKind::Overload, retry_after(86_400_000));
        if let Outcome::Failure(failure) = &mut day {
            failure.retryable = false;
        }
        let step = if chance == 0 {
            call.on_outcome(1, &day, &mut target, at(0), &mut Lowest)
        } else {
            call.on_outcome(1, &day, &mut target, at(0), &mut Highest)
        };
        let Step::Done(Verdict::Failure { retry_after, .. }) = step else {
            panic!("{step:?}")
        };
        assert_eq!(retry_after, Some(ms(expected)));
    }
}

/// Calls that were held back together do not come back together.
#[test]
fn retry_after_obeyed_by_all_at_once() {
    let mut target = target(plain());
    let wait = hinted(FailureKind::Overload, retry_after(700));
    let mut first = started(1, &mut target, at(0));
    let mut second = started(2, &mut target, at(0));
    first.on_outcome(1, &wait, &mut target, at(0), &mut Lowest);
    second.on_outcome(1, &wait, &mut target, at(0), &mut Highest);
    assert_eq!(
        (first.next_timer(), second.next_timer()),
        (Some(at(700)), Some(at(1050)))
    );
    first.abandon(&mut target);
    second.abandon(&mut target);
}

/// The caller's deadline and the policy's bound every attempt and every wait, and are there to be sent along.
#[test]
fn deadlines_not_propagated() {
    let mut settings = plain();
    settings.call.deadline = Some(ms(100));
    settings.call.attempt_timeout = Some(ms(80));
    let mut target = target(settings);
    let mut call = call(1);
    let first = sent(call.start(&mut target, at(0), &mut Lowest));
    assert_eq!((first.ends, call.deadline()), (at(80), Deadline::at(at(100))));
    assert_eq!(call.on_timer(&mut target, at(80), &mut Lowest), Step::Cancel(1));
    let second = sent(call.on_timer(&mut target, at(90), &mut Lowest));
    assert_eq!(second.ends, at(100), "cut to what is left");
    assert_eq!(
        refusal(call.on_timer(&mut target, at(100), &mut Lowest)),
        Refusal::Deadline
    );

    let mut hurried = Call::new(&Facts {
        deadline: Deadline::at(at(130)),
        ..facts(2)
    });
    assert_eq!(
        sent(hurried.start(&mut target, at(120), &mut Lowest)).ends,
        at(130)
    );
    let step = end(&mut hurried, 1, &failed(FAULT), &mut target, at(125));
    assert_eq!(
        refusal(step),
        Refusal::Deadline,
        "the wait alone would outlast it"
    );
    let late = Call::new(&Facts {
        deadline: Deadline::at(at(130)),
        ..facts(3)
    })
    .start(&mut target, at(130), &mut Lowest);
    assert_eq!(refusal(late), Refusal::Deadline);
}

/// Every failure that is not retried says why, with a label of its own and a next step.
#[test]
fn retries_suppressed_invisibly() {
    let labels: HashSet<&str> = Refusal::ALL.iter().map(|refusal| refusal.as_str()).collect();
    assert_eq!(labels.len(), Refusal::ALL.len());
    assert!(Refusal::ALL.iter().all(|refusal| refusal.next_step().len() > 10));
    let mut target = target(Settings {
        guard: Some(guard_off()),
        ..plain()
    });
    let mut call = started(1, &mut target, at(0));
    let step = end(&mut call, 1, &failed(FAULT), &mut target, at(0));
    let Step::Done(Verdict::Failure {
        number,
        failure,
        refusal,
        ..
    }) = step
    else {
        panic!("{step:?}")
    };
    assert_eq!((number, failure.kind, refusal), (1, FAULT, Refusal::Guard));
}

/// A new policy counts for the next decision of a call that is under way.
#[test]
fn configuration_fixed_at_start() {
    let mut settings = plain();
    let mut target = target(settings.clone());
    let mut call = started(1, &mut target, at(0));
    settings.call.retries = 0;
    target.replace(settings.into(), at(1));
    assert_eq!(
        refusal(end(&mut call, 1, &failed(FAULT), &mut target, at(2))),
        Refusal::AttemptsUsed
    );
}

/// As many attempts as a policy can write fit the numbers that count them.
#[test]
fn attempts_that_outrun_their_counter() {
    let mut settings = Settings {
        hedge: Some(hedge(1, 3)),
        ..plain()
    };
    settings.call.retries = u8::MAX;
    settings.call.backoff = constant(0);
    let mut target = target(settings);
    let mut call = started(1, &mut target, at(0));
    for number in 1..u8::MAX {
        assert_eq!(
            sent(end(&mut call, number, &failed(FAULT), &mut target, at(0))).number,
            number + 1
        );
    }
    assert_eq!(
        call.on_timer(&mut target, at(1), &mut Lowest),
        Step::Wait,
        "nor by a hedge"
    );
    assert_eq!(
        refusal(end(&mut call, u8::MAX, &failed(FAULT), &mut target, at(1))),
        Refusal::AttemptsUsed
    );
    one_attempt(&Outcome::Success, &mut target, at(1));
}
