//! Before an attempt: (deadline →) gate → breaker, a look → throttle → bulkhead → breaker, for good.

use retryguard_core::{
    Call, Chance, Deadline, Failure, FailureKind, Outcome, Ratio, Refusal, Target,
    breaker::State,
    bulkhead::Ticket,
    call::{Facts, Step},
    chance::{Highest, Lowest},
    target::Settings,
    throttle,
};

use crate::support::*;

/// Every reason not to send a first attempt, in the documented order.
const ORDER: [Refusal; 5] = [
    Refusal::Deadline,
    Refusal::RetryAfter,
    Refusal::BreakerOpen,
    Refusal::Throttled,
    Refusal::BulkheadFull,
];

/// A target that refuses for exactly the reasons of `places`, and the call that holds its only place.
fn refusing(places: &[usize]) -> (Target, Option<Call>) {
    let has = |place: usize| places.contains(&place);
    let mut target = target(Settings {
        breaker: Some(breaker(1)),
        throttle: Some(throttle::Settings::default()),
        bulkhead: Some(bulkhead(1, 0)),
        ..plain()
    });
    // Rejections that say nothing of health, so that the throttle counts them and the breaker does not.
    let mut rejection = failed(FailureKind::Overload);
    if let Outcome::Failure(failure) = &mut rejection {
        failure.unhealthy = false;
    }
    // Two accepts, so that the throttle has nothing against the few requests of the other parts.
    (0..2).for_each(|_| one_attempt(&Outcome::Success, &mut target, at(0)));
    if has(3) {
        (0..10).for_each(|_| one_attempt(&rejection, &mut target, at(0)));
    }
    let held = has(4).then(|| started(1, &mut target, at(0)));
    if has(1) || has(2) {
        // One more place for the bearer of bad news.
        let narrow = target.settings().clone();
        let wide = Settings {
            bulkhead: Some(bulkhead(2, 0)),
            ..narrow.clone()
        };
        target.replace(wide.into(), at(0));
        let mut bad = if has(1) {
            hinted(FailureKind::Overload, retry_after(1000))
        } else {
            failed(FAULT)
        };
        if let Outcome::Failure(failure) = &mut bad {
            failure.unhealthy = has(2);
        }
        one_attempt(&bad, &mut target, at(0));
        target.replace(narrow.into(), at(0));
    }
    (target, held)
}

fn ask(target: &mut Target, deadline: Deadline, chance: &mut impl Chance) -> Step {
    Call::new(&Facts { deadline, ..facts(9) }).start(target, at(1), chance)
}

fn told(places: &[usize]) -> Refusal {
    let (mut target, held) = refusing(places);
    let deadline = if places.contains(&0) {
        Deadline::at(at(1))
    } else {
        Deadline::NONE
    };
    let step = ask(&mut target, deadline, &mut Highest);
    if let Some(mut call) = held {
        call.abandon(&mut target);
    }
    assert_eq!(target.in_flight(), 0);
    refusal(step)
}

#[test]
fn each_reason_alone_is_told() {
    for (place, expected) in ORDER.into_iter().enumerate() {
        assert_eq!(told(&[place]), expected, "place {place}");
    }
}

#[test]
fn of_two_reasons_the_first_is_told() {
    for (first, expected) in ORDER.into_iter().enumerate() {
        for second in first + 1..ORDER.len() {
            assert_eq!(told(&[first, second]), expected, "{first} before {second}");
        }
    }
}

/// Probes that are busy are found out by the look, before the throttle has counted anything.
#[test]
fn busy_probes_come_before_the_bulkhead() {
    let mut target = target(Settings {
        breaker: Some(breaker(1)),
        bulkhead: Some(bulkhead(1, 0)),
        ..plain()
    });
    one_attempt(&failed(FAULT), &mut target, at(0));
    let mut probe = started(1, &mut target, at(100));
    assert_eq!(
        refusal(call(2).start(&mut target, at(100), &mut Lowest)),
        Refusal::ProbesBusy
    );
    probe.abandon(&mut target);
}

/// The probe is given out last: an attempt that the bulkhead refuses must not hold one.
#[test]
fn a_full_bulkhead_takes_no_probe() {
    let with = |breaker| Settings {
        breaker,
        bulkhead: Some(bulkhead(2, 0)),
        ..plain()
    };
    let mut target = target(with(Some(breaker(1))));
    let mut held = started(1, &mut target, at(0));
    one_attempt(&failed(FAULT), &mut target, at(0));
    target.replace(
        Settings {
            bulkhead: Some(bulkhead(1, 0)),
            ..with(Some(breaker(1)))
        }
        .into(),
        at(1),
    );
    assert_eq!(
        refusal(call(2).start(&mut target, at(100), &mut Lowest)),
        Refusal::BulkheadFull
    );
    assert_eq!(target.breaker_state(), State::Open, "a look changes nothing");
    held.abandon(&mut target);
    started(2, &mut target, at(100)).abandon(&mut target);
}

/// Who waits in the queue holds no probe either, and is asked again when the place comes.
#[test]
fn a_queued_attempt_holds_no_probe_and_is_asked_again() {
    let with = |limit| Settings {
        breaker: Some(breaker(1)),
        bulkhead: Some(bulkhead(limit, 2)),
        ..plain()
    };
    let mut target = target(with(2));
    let mut held = started(1, &mut target, at(0));
    one_attempt(&failed(FAULT), &mut target, at(0));
    target.replace(with(1).into(), at(1));
    let mut queued = call(2);
    assert_eq!(queued.start(&mut target, at(100), &mut Lowest), Step::Wait);
    assert_eq!(target.breaker_state(), State::Open);
    held.abandon(&mut target);
    assert_eq!(target.next_granted(), Some(Ticket(2)));
    target.replace(with(2).into(), at(100));
    let mut quicker = started(3, &mut target, at(100));
    assert_eq!(target.breaker_state(), State::HalfOpen);
    let step = queued.on_place(&mut target, at(101), &mut Lowest);
    assert_eq!(refusal(step), Refusal::ProbesBusy);
    assert_eq!(target.in_flight(), 1, "the refused one gave its place back");
    quicker.abandon(&mut target);
}

/// The throttle's probability of rejecting the next request, seen through the one chance that is drawn.
fn rejection(target: &mut Target) -> Option<Ratio> {
    struct Seen(Option<Ratio>);
    impl Chance for Seen {
        fn below(&mut self, _: u64) -> u64 {
            0
        }
        fn happens(&mut self, share: Ratio) -> bool {
            self.0 = Some(share);
            false
        }
    }
    let mut seen = Seen(None);
    let mut probe = call(99);
    probe.start(target, at(2), &mut seen);
    probe.abandon(target);
    seen.0
}

fn throttled() -> Settings {
    Settings {
        throttle: Some(throttle::Settings::default()),
        ..plain()
    }
}

#[test]
fn a_request_that_the_bulkhead_refuses_is_not_counted_by_the_throttle() {
    let settings = Settings {
        bulkhead: Some(bulkhead(1, 0)),
        ..throttled()
    };
    let mut target = target(settings);
    let mut held = started(1, &mut target, at(0));
    assert_eq!(
        refusal(call(2).start(&mut target, at(1), &mut Lowest)),
        Refusal::BulkheadFull
    );
    held.abandon(&mut target);
    assert_eq!(
        rejection(&mut target),
        Some(Ratio::ZERO),
        "neither of the two is counted"
    );
}

#[test]
fn a_request_that_leaves_the_queue_is_not_counted_by_the_throttle() {
    let settings = Settings {
        bulkhead: Some(bulkhead(1, 1)),
        ..throttled()
    };
    let mut target = target(settings);
    let mut held = started(1, &mut target, at(0));
    let mut queued = call(2);
    queued.start(&mut target, at(0), &mut Lowest);
    queued.abandon(&mut target);
    held.abandon(&mut target);
    assert_eq!(rejection(&mut target), Some(Ratio::ZERO));
}

#[test]
fn a_request_that_the_breaker_or_the_gate_refuses_never_reaches_the_throttle() {
    let mut open = target(Settings {
        breaker: Some(breaker(1)),
        ..throttled()
    });
    one_attempt(&failed(FAULT), &mut open, at(0));
    for _ in 0..5 {
        refusal(call(1).start(&mut open, at(1), &mut Lowest));
    }
    open.replace(throttled().into(), at(1));
    assert_eq!(rejection(&mut open), Some(Ratio::ZERO), "one request, one accept");
    let mut gated = target(throttled());
    let accepted = Failure {
        rejection: false,
        ..Failure::new(FailureKind::Overload).with_hints(retry_after(2))
    };
    one_attempt(&Outcome::Failure(accepted), &mut gated, at(0));
    for _ in 0..5 {
        refusal(call(1).start(&mut gated, at(1), &mut Lowest));
    }
    assert_eq!(rejection(&mut gated), Some(Ratio::ZERO));
}

/// A request that the throttle itself rejects stays counted, or the throttle would undo itself.
#[test]
fn a_request_that_the_throttle_rejects_is_counted() {
    let mut target = target(throttled());
    one_attempt(&failed(FailureKind::Overload), &mut target, at(0));
    assert_eq!(
        refusal(call(1).start(&mut target, at(1), &mut Highest)),
        Refusal::Throttled
    );
    assert_eq!(rejection(&mut target), Some(Ratio::of_counts(2, 3)));
}

/// A retry that is decided but then refused at the door gets its charge back.
#[test]
fn a_retry_that_is_not_admitted_is_not_charged() {
    let settings = Settings {
        breaker: Some(breaker(1)),
        budget: Some(ratio(100)),
        ..plain()
    };
    let mut target = target(settings);
    let mut call = started(1, &mut target, at(0));
    assert_eq!(end(&mut call, 1, &failed(FAULT), &mut target, at(0)), Step::Wait);
    assert_eq!(target.budget_balance(at(0)), Some(0));
    assert_eq!(
        refusal(call.on_timer(&mut target, at(10), &mut Lowest)),
        Refusal::BreakerOpen
    );
    assert_eq!(target.budget_balance(at(10)), Some(1));
}

/// A hedge never waits for a place, and one that finds none costs nothing.
#[test]
fn a_hedge_that_finds_no_place_is_not_charged_and_does_not_queue() {
    let settings = Settings {
        bulkhead: Some(bulkhead(1, 5)),
        budget: Some(ratio(100)),
        hedge: Some(hedge(10, 1)),
        ..plain()
    };
    let mut target = target(settings);
    let mut call = started(1, &mut target, at(0));
    assert_eq!(call.on_timer(&mut target, at(10), &mut Lowest), Step::Wait);
    assert_eq!((target.waiting(), target.budget_balance(at(10))), (0, Some(1)));
    call.abandon(&mut target);
}
