//! The adaptive limit: felt where attempts do harm, and nowhere else.

use retryguard_core::{
    FailureKind, Outcome, Refusal, Target,
    bulkhead::{self, Limit},
    call::{Step, Verdict},
    chance::Lowest,
    limiter,
    target::Settings,
};

use crate::support::*;

fn limited() -> Target {
    let mut settings = Settings {
        bulkhead: Some(bulkhead::Settings {
            limit: Limit::Adaptive(limiter::Settings::default()),
            wait: std::time::Duration::MAX,
            waiting: 100,
        }),
        ..plain()
    };
    settings.call.deadline = Some(ms(1000));
    settings.call.retries = 0;
    target(settings)
}

/// Eight calls at a time, each answered after `latency`, of which one in `every` comes to `outcome`.
fn rounds(target: &mut Target, from: u64, rounds: u64, latency: u64, every: u64, outcome: &Outcome) -> u64 {
    let mut now = from;
    for round in 0..rounds {
        let mut calls: Vec<_> = (0..8).map(call).collect();
        let steps: Vec<Step> = calls
            .iter_mut()
            .map(|call| call.start(target, at(now), &mut Lowest))
            .collect();
        for (ticket, (call, step)) in calls.iter_mut().zip(steps).enumerate() {
            let fails = (round * 8 + ticket as u64) % every == every - 1;
            if matches!(step, Step::Send(_)) {
                let came = if fails { outcome } else { &Outcome::Success };
                end(call, 1, came, target, at(now + latency));
            }
        }
        calls.iter_mut().for_each(|call| call.abandon(target));
        now += latency + 1;
    }
    now
}

#[test]
fn random_rejections_and_faults_do_not_shrink_it() {
    for kind in [
        FailureKind::Overload,
        FailureKind::Fault,
        FailureKind::Unreachable,
    ] {
        let mut target = limited();
        rounds(&mut target, 0, 200, 20, 2, &failed(kind));
        assert_eq!(target.limit(), 1000, "{kind}");
    }
}

#[test]
fn slow_answers_beside_rejections_shrink_it_and_it_grows_again() {
    let mut target = limited();
    let now = rounds(&mut target, 0, 50, 20, u64::MAX, &Outcome::Success);
    assert_eq!(target.limit(), 1000, "nothing was wrong yet");
    let now = rounds(&mut target, now, 60, 100, 3, &failed(FailureKind::Overload));
    let small = target.limit();
    assert!(small < 20, "{small}");
    rounds(&mut target, now, 200, 20, u64::MAX, &Outcome::Success);
    assert!(target.limit() >= 8, "{}", target.limit());
}

#[test]
fn late_answers_shrink_it_though_nothing_fails() {
    let mut target = limited();
    let now = rounds(&mut target, 0, 50, 20, u64::MAX, &Outcome::Success);
    let now = rounds(&mut target, now, 30, 300, u64::MAX, &Outcome::Success);
    assert_eq!(target.limit(), 1000, "slow, and in time");
    rounds(&mut target, now, 60, 700, u64::MAX, &Outcome::Success);
    assert!(target.limit() < 20, "{}", target.limit());
    assert!(target.limit() >= 1, "never less than one");
}

#[test]
fn while_late_answers_come_it_stays_near_what_is_normal() {
    let mut target = limited();
    let now = rounds(&mut target, 0, 100, 20, u64::MAX, &Outcome::Success);
    let now = rounds(&mut target, now, 60, 700, u64::MAX, &Outcome::Success);
    let answered = target.limit();
    // Eight that end one after the other are 4.5 on average.
    assert_eq!(answered, 4);
    rounds(&mut target, now, 60, 700, 3, &failed(FailureKind::Overload));
    let rejected = target.limit();
    assert!(rejected < answered, "{rejected} where some are rejected");
}

/// How many of a hundred calls that are made at once while requests are served may send.
fn inner_places(target: &mut Target, now: u64) -> usize {
    let mut calls: Vec<_> = (0..100).map(|ticket| call(ticket).within_request()).collect();
    let sent = calls
        .iter_mut()
        .map(|call| call.start(target, at(now), &mut Lowest))
        .filter(|step| match step {
            Step::Send(_) => true,
            Step::Done(Verdict::Refused { refusal, .. }) => {
                assert_eq!(*refusal, Refusal::BulkheadFull);
                false
            }
            other => panic!("{other:?}: it neither sends nor is refused"),
        })
        .count();
    calls.iter_mut().for_each(|call| call.abandon(target));
    sent
}

#[test]
fn calls_made_while_a_request_is_served_are_refused_rather_than_made_to_wait() {
    let mut target = limited();
    let now = rounds(&mut target, 0, 100, 20, u64::MAX, &Outcome::Success);
    assert_eq!(inner_places(&mut target, now), 100, "nothing is limited yet");
    let now = rounds(&mut target, now, 60, 700, u64::MAX, &Outcome::Success);
    // 4.5 on average, with room for their variation: 4.5 + 2 * 2.1 + 1.
    assert_eq!(inner_places(&mut target, now), 9, "late, and all are answered");
    let now = rounds(&mut target, now, 60, 700, 1, &failed(FailureKind::Overload));
    let rejected = inner_places(&mut target, now);
    assert!((1..=3).contains(&rejected), "{rejected} where all are rejected");
}
