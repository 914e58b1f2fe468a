//! What refused callers are instructed to wait, and when a gate lets retries through: spread from the wait upwards.

use retryguard_core::{
    Criticality, Failure, FailureKind, Refusal,
    breaker::State,
    bulkhead::Ticket,
    gate::{self, Gate},
    shed::{self, Arrival, Shed},
    target::Settings,
};

use super::statistics::assert_uniform;
use crate::support::*;

const DRAWS: u64 = 20_000;
const CRITICAL: Criticality = Criticality::Critical;

#[test]
fn retries_held_back_by_a_gate_are_spread_after_it_opens() {
    let mut gate = Gate::new(gate::Settings::default());
    gate.on_failure(
        &Failure::new(FailureKind::Overload).with_hints(retry_after(4000)),
        CRITICAL,
        false,
        at(1000),
    );
    let mut chance = SplitMix(1);
    let moments: Vec<f64> = (0..DRAWS)
        .map(|_| {
            gate.retry_at(at(2000), CRITICAL, None, at(1000), &mut chance)
                .as_nanos() as f64
                / 1e9
        })
        .collect();
    assert_uniform(&moments, 5.0, 7.0);
}

#[test]
fn callers_refused_by_a_gate_or_a_breaker_are_told_spread_waits() {
    let mut target = target(Settings {
        breaker: Some(breaker(1)),
        ..plain()
    });
    one_attempt(
        &hinted(FailureKind::Overload, retry_after(200)),
        &mut target,
        at(0),
    );
    assert_eq!(target.breaker_state(), State::Open);
    let mut chance = SplitMix(2);
    for (refusal, wait) in [(Refusal::RetryAfter, 0.2), (Refusal::BreakerOpen, 0.1)] {
        let waits: Vec<f64> = (0..DRAWS)
            .map(|_| {
                target
                    .retry_after(refusal, CRITICAL, at(0), &mut chance)
                    .expect("closed")
                    .as_secs_f64()
            })
            .collect();
        assert_uniform(&waits, wait, 1.5 * wait);
    }
}

#[test]
fn clients_shed_by_a_server_are_told_spread_waits() {
    let mut shed = Shed::new(
        shed::Settings {
            in_flight: 1,
            ..shed::Settings::default()
        },
        at(0),
    );
    let arrival = Arrival {
        criticality: CRITICAL,
        again: false,
    };
    let mut chance = SplitMix(3);
    let entry = shed
        .admit(arrival, Ticket(0), at(0), &mut chance)
        .expect("there is room for one");
    let waits: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let refused = shed.admit(arrival, Ticket(1), at(0), &mut chance);
            refused.expect_err("full").retry_after.as_secs_f64()
        })
        .collect();
    assert_uniform(&waits, 1.0, 2.0);
    shed.leave(entry);
}
