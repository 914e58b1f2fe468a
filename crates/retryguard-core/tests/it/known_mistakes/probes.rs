//! Breakers that flood a target that is barely back.

use retryguard_core::{
    FailureKind, Outcome, Refusal, Target,
    breaker::{self, State},
    call::Step,
    chance::Lowest,
    target::Settings,
};

use crate::support::*;

fn open(probes: u32, close_after: u32) -> Target {
    let settings = breaker::Settings {
        probes,
        close_after,
        ..breaker(1)
    };
    let mut target = target(Settings {
        breaker: Some(settings),
        ..plain()
    });
    one_attempt(&failed(FAULT), &mut target, at(0));
    assert_eq!(target.breaker_state(), State::Open);
    target
}

/// A hundred calls arrive the moment the breaker may be probed.
#[test]
fn half_open_floods() {
    for probes in [1, 2, 5] {
        let mut target = open(probes, 5);
        let mut let_through = Vec::new();
        for ticket in 0..100 {
            let mut call = call(ticket);
            match call.start(&mut target, at(100), &mut Lowest) {
                Step::Send(_) => let_through.push(call),
                step => assert_eq!(refusal(step), Refusal::ProbesBusy),
            }
        }
        assert_eq!(let_through.len(), probes as usize);
        let_through.iter_mut().for_each(|call| call.abandon(&mut target));
    }
}

/// Attempts from before the breaker opened end, well or badly or not at all, while it is half-open: none of
/// them may free a probe's place, close the breaker or open it.
#[test]
fn late_result_frees_a_probe_slot() {
    let mut target = target(Settings {
        breaker: Some(breaker(1)),
        ..plain()
    });
    let mut late: Vec<_> = (0..3).map(|ticket| started(ticket, &mut target, at(0))).collect();
    one_attempt(&failed(FAULT), &mut target, at(0));
    let mut probe = started(9, &mut target, at(100));
    end(&mut late[0], 1, &Outcome::Success, &mut target, at(101));
    end(
        &mut late[1],
        1,
        &failed(FailureKind::Request),
        &mut target,
        at(101),
    );
    late[2].abandon(&mut target);
    assert_eq!(target.breaker_state(), State::HalfOpen);
    assert_eq!(
        refusal(call(10).start(&mut target, at(101), &mut Lowest)),
        Refusal::ProbesBusy
    );
    probe.abandon(&mut target);
}

/// The result of a probe that a call gave up on comes when the next probe is under way.
#[test]
fn late_result_of_an_abandoned_probe() {
    let mut target = open(1, 2);
    let mut first = started(1, &mut target, at(100));
    first.abandon(&mut target);
    let mut second = started(2, &mut target, at(100));
    assert_eq!(
        end(&mut first, 1, &Outcome::Success, &mut target, at(101)),
        Step::Wait
    );
    assert_eq!(
        refusal(call(3).start(&mut target, at(101), &mut Lowest)),
        Refusal::ProbesBusy
    );
    second.abandon(&mut target);
}

/// The retries of one call must not pass for probes beyond the named number.
#[test]
fn retries_do_not_flood_a_half_open_breaker_either() {
    let mut target = open(1, 2);
    let mut probe = started(1, &mut target, at(100));
    assert_eq!(
        end(&mut probe, 1, &failed(FAULT), &mut target, at(101)),
        Step::Wait
    );
    assert_eq!(
        refusal(probe.on_timer(&mut target, at(111), &mut Lowest)),
        Refusal::BreakerOpen
    );
}
