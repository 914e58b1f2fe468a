//! A target that is down is waited for.

use retryguard_core::{
    Deadline, FailureKind, Instant, Outcome, Refusal, Target,
    breaker::{self, Trip, WhenDown},
    bulkhead::Ticket,
    call::Step,
    chance::Lowest,
    target::Settings,
};

use crate::support::*;

const DOWN: FailureKind = FailureKind::Unreachable;

fn breaker(when_down: WhenDown) -> breaker::Settings {
    breaker::Settings {
        trip: Trip::Silence(10),
        open_for: ms(50),
        open_for_at_most: ms(1000),
        probes: 1,
        close_after: 1,
        when_down,
    }
}

/// A target whose attempts came once in 10 ms and have all failed lately.
fn down(when_down: WhenDown) -> (Target, u64) {
    let mut settings = Settings {
        breaker: Some(breaker(when_down)),
        ..plain()
    };
    settings.call.deadline = Some(ms(500));
    let mut target = target(settings);
    for number in 0..30 {
        let outcome = if number < 20 {
            Outcome::Success
        } else {
            failed(DOWN)
        };
        one_attempt(&outcome, &mut target, at(10 * number));
    }
    assert_eq!(target.breaker_state(), breaker::State::Open);
    (target, 290)
}

#[test]
fn a_success_between_failures_keeps_it_closed() {
    let mut target = target(Settings {
        breaker: Some(breaker(WhenDown::Fail)),
        ..plain()
    });
    for number in 0..200 {
        let outcome = if number % 9 == 8 {
            Outcome::Success
        } else {
            failed(DOWN)
        };
        one_attempt(&outcome, &mut target, at(number));
    }
    assert_eq!(target.breaker_state(), breaker::State::Closed);
}

/// After how many timeouts in a row, so many milliseconds apart, a target is taken for down.
fn timeouts_until_down(gap: u64) -> u64 {
    let mut target = target(Settings {
        breaker: Some(breaker(WhenDown::Fail)),
        ..plain()
    });
    (0..20).for_each(|number| one_attempt(&Outcome::Success, &mut target, at(gap * number)));
    (20..60)
        .find(|number| {
            one_attempt(&failed(FailureKind::Timeout), &mut target, at(gap * number));
            target.breaker_state() == breaker::State::Open
        })
        .expect("a target that never answers is taken for down")
        - 19
}

#[test]
fn timeouts_of_a_client_that_makes_few_calls_count_in_full() {
    assert_eq!(timeouts_until_down(10), 20);
    assert_eq!(timeouts_until_down(1000), 10);
}

/// Where nine of ten attempts fail at random, ten failures in a row are not an outage.
#[test]
fn common_failures_need_a_longer_run() {
    let mut target = target(Settings {
        breaker: Some(breaker(WhenDown::Fail)),
        ..plain()
    });
    let mut now = 0;
    for _ in 0..60 {
        for _ in 0..9 {
            one_attempt(&failed(DOWN), &mut target, at(now));
            now += 1;
        }
        one_attempt(&Outcome::Success, &mut target, at(now));
    }
    (0..30).for_each(|more| one_attempt(&failed(DOWN), &mut target, at(now + more)));
    assert_eq!(target.breaker_state(), breaker::State::Closed);
    (30..200).for_each(|more| {
        if target.breaker_state() == breaker::State::Closed {
            one_attempt(&failed(DOWN), &mut target, at(now + more));
        }
    });
    assert_eq!(target.breaker_state(), breaker::State::Open);
}

#[test]
fn calls_fail_at_once_where_the_policy_says_so() {
    let (mut target, now) = down(WhenDown::Fail);
    let step = call(1).start(&mut target, at(now + 1), &mut Lowest);
    assert_eq!(refusal(step), Refusal::BreakerOpen);
}

#[test]
fn calls_wait_probe_one_by_one_and_follow_when_a_probe_succeeds() {
    let (mut target, now) = down(WhenDown::Wait { most: 10 });
    let mut calls: Vec<_> = (1..=3).map(call).collect();
    for waiting in &mut calls {
        assert_eq!(waiting.start(&mut target, at(now + 1), &mut Lowest), Step::Wait);
        assert!(waiting.is_queued());
    }
    assert_eq!(target.next_granted(), None, "no probe is due");
    // Probes come once in four usual gaps, and never sooner than the settings say.
    let due = calls[0].next_timer().expect("it looks again");
    assert_eq!(due, at(now + 50));
    assert_eq!(calls[0].on_timer(&mut target, due, &mut Lowest), Step::Wait);
    assert_eq!(target.next_granted(), Some(Ticket(1)));
    let probe = sent(calls[0].on_place(&mut target, due, &mut Lowest));
    assert_eq!(target.next_granted(), None, "one probe at a time");
    let back = at(now + 70);
    assert!(matches!(
        end(&mut calls[0], probe.number, &Outcome::Success, &mut target, back),
        Step::Done(_)
    ));
    assert_eq!(target.breaker_state(), breaker::State::Closed);
    for (index, ticket) in [2, 3].into_iter().enumerate() {
        assert_eq!(target.next_granted(), Some(Ticket(ticket)));
        sent(calls[index + 1].on_place(&mut target, back, &mut Lowest));
    }
    calls.iter_mut().for_each(|call| call.abandon(&mut target));
}

#[test]
fn a_waiting_call_ends_with_its_deadline_and_their_number_is_bounded() {
    let (mut target, now) = down(WhenDown::Wait { most: 2 });
    let mut first = call(1);
    assert_eq!(first.start(&mut target, at(now + 1), &mut Lowest), Step::Wait);
    let mut second = call(2);
    assert_eq!(second.start(&mut target, at(now + 1), &mut Lowest), Step::Wait);
    let third = call(3).start(&mut target, at(now + 1), &mut Lowest);
    assert_eq!(refusal(third), Refusal::BreakerOpen, "two wait already");
    second.abandon(&mut target);
    // No other call asks, and every probe that it sends itself fails.
    let mut step = Step::Wait;
    let mut last = Instant::ZERO;
    while let Some(due) = first.next_timer() {
        last = due;
        step = first.on_timer(&mut target, due, &mut Lowest);
        while target.next_granted().is_some() {
            step = first.on_place(&mut target, due, &mut Lowest);
        }
        if let Step::Send(attempt) = step {
            step = end(&mut first, attempt.number, &failed(DOWN), &mut target, due);
        }
        if matches!(step, Step::Done(_)) {
            break;
        }
    }
    assert!(matches!(step, Step::Done(_)));
    assert!(last <= at(now + 501), "{last:?}");
    assert_eq!((target.waiting(), target.in_flight()), (0, 0));
}

/// A call that holds the worker of the request that it serves waits only beside as many as are usually under way.
#[test]
fn few_wait_while_a_request_is_served() {
    let (mut target, now) = down(WhenDown::Wait { most: 1000 });
    target.replace(
        std::sync::Arc::new(Settings {
            bulkhead: Some(retryguard_core::bulkhead::Settings {
                limit: retryguard_core::bulkhead::Limit::Adaptive(
                    retryguard_core::limiter::Settings::default(),
                ),
                wait: std::time::Duration::MAX,
                waiting: 1000,
            }),
            ..target.settings().clone()
        }),
        at(now),
    );
    let mut waiting = Vec::new();
    for ticket in 1..100 {
        let mut call = retryguard_core::Call::new(&retryguard_core::call::Facts {
            deadline: Deadline::NONE,
            ..facts(ticket)
        })
        .within_request();
        if call.start(&mut target, at(now + 1), &mut Lowest) == Step::Wait {
            waiting.push(call);
        }
    }
    assert!(waiting.len() <= 2, "{}", waiting.len());
    waiting.iter_mut().for_each(|call| call.abandon(&mut target));
}
