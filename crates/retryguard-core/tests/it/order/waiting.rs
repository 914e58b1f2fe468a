//! What has changed while an attempt waited, for its time or for a place, is considered before it is sent.

use retryguard_core::{
    FailureKind, Refusal, Target,
    bulkhead::Ticket,
    call::{Step, Verdict},
    chance::Lowest,
    guard,
    outcome::Hints,
    target::Settings,
};

use crate::support::*;

fn charged() -> Settings {
    Settings {
        budget: Some(ratio(100)),
        ..plain()
    }
}

fn overload(hints: Hints, target: &mut Target, now: u64) {
    one_attempt(&hinted(FailureKind::Overload, hints), target, at(now));
}

/// Retries that waited went to a target that had meanwhile asked all clients to stay away.
#[test]
fn a_waiting_retry_is_put_off_by_a_gate_that_closes() {
    let mut target = target(charged());
    let mut call = started(1, &mut target, at(0));
    assert_eq!(end(&mut call, 1, &failed(FAULT), &mut target, at(0)), Step::Wait);
    overload(retry_after(500), &mut target, 5);
    let balance = target.budget_balance(at(5));
    assert_eq!(call.on_timer(&mut target, at(10), &mut Lowest), Step::Wait);
    assert_eq!(call.next_timer(), Some(at(505)));
    sent(call.on_timer(&mut target, at(505), &mut Lowest));
    assert_eq!(target.budget_balance(at(505)), balance, "charged once");
    call.abandon(&mut target);
}

#[test]
fn a_waiting_retry_that_a_gate_puts_off_too_far_ends_with_its_deadline() {
    let mut settings = charged();
    settings.call.deadline = Some(ms(400));
    let mut target = target(settings);
    let mut call = started(1, &mut target, at(0));
    end(&mut call, 1, &failed(FAULT), &mut target, at(0));
    overload(retry_after(500), &mut target, 5);
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::Deadline
    );
    assert_eq!(target.budget_balance(at(10)), Some(2), "given back");
}

#[test]
fn a_waiting_retry_obeys_a_mark_that_came_meanwhile() {
    let mut target = target(charged());
    let mut call = started(1, &mut target, at(0));
    end(&mut call, 1, &failed(FAULT), &mut target, at(0));
    overload(
        Hints {
            do_not_retry: true,
            ..Hints::NONE
        },
        &mut target,
        5,
    );
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::TargetForbids
    );
    assert_eq!(target.budget_balance(at(10)), Some(2), "given back");
}

#[test]
fn a_waiting_retry_obeys_a_guard_that_switched_off_meanwhile() {
    let mut settings = charged();
    settings.guard = Some(guard::Settings {
        interval: ms(1),
        ..guard::Settings::default()
    });
    let mut target = target(settings);
    let mut call = started(1, &mut target, at(0));
    assert_eq!(end(&mut call, 1, &failed(FAULT), &mut target, at(0)), Step::Wait);
    (0..40).for_each(|_| overload(Hints::NONE, &mut target, 1));
    overload(Hints::NONE, &mut target, 5);
    assert_eq!(target.guard_state(), guard::State::Off);
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::Guard
    );
}

/// A place comes free when an attempt ends, and that may end in a request to be left alone: all calls in the
/// queue went straight into the closed gate, one after the other.
#[test]
fn a_queued_first_attempt_is_refused_by_a_gate_that_closes() {
    let mut target = target(Settings {
        bulkhead: Some(bulkhead(1, 1)),
        ..charged()
    });
    let mut inside = started(1, &mut target, at(0));
    let mut queued = call(2);
    assert_eq!(queued.start(&mut target, at(0), &mut Lowest), Step::Wait);
    end(
        &mut inside,
        1,
        &hinted(FailureKind::Overload, retry_after(500)),
        &mut target,
        at(5),
    );
    assert_eq!(target.next_granted(), Some(Ticket(2)));
    let step = queued.on_place(&mut target, at(5), &mut Lowest);
    let expected = Verdict::Refused {
        refusal: Refusal::RetryAfter,
        retry_after: Some(ms(500)),
    };
    assert_eq!(step, Step::Done(expected));
    assert_eq!(target.in_flight(), 0, "its place is free again");
    inside.abandon(&mut target);
}

/// A retry in the queue goes back to waiting, and gives its place to another call.
#[test]
fn a_queued_retry_is_put_off_by_a_gate_that_closes() {
    let mut settings = Settings {
        bulkhead: Some(bulkhead(1, 1)),
        ..charged()
    };
    settings.call.retries = 1;
    let mut target = target(settings);
    let mut retrying = started(1, &mut target, at(0));
    end(&mut retrying, 1, &failed(FAULT), &mut target, at(0));
    let mut inside = started(2, &mut target, at(1));
    assert_eq!(retrying.on_timer(&mut target, at(10), &mut Lowest), Step::Wait);
    assert!(retrying.is_queued());
    end(
        &mut inside,
        1,
        &hinted(FailureKind::Overload, retry_after(500)),
        &mut target,
        at(20),
    );
    inside.abandon(&mut target);
    assert_eq!(target.next_granted(), Some(Ticket(1)));
    assert_eq!(retrying.on_place(&mut target, at(20), &mut Lowest), Step::Wait);
    assert_eq!((target.in_flight(), retrying.next_timer()), (0, Some(at(520))));
    sent(retrying.on_timer(&mut target, at(520), &mut Lowest));
    retrying.abandon(&mut target);
}
