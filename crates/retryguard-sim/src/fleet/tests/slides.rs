//! Numbers of the slides that are not a curve.

use std::time::Duration;

use super::{FACTOR, JITTERED, PERIOD, at, bad, doubling, fleet, retry};
use crate::{
    fleet::{Fleet, Pace, Series, Start, cohorts, individuals},
    streams::Seed,
};
use retryguard_core::{
    Backoff,
    backoff::{Growth, Jitter},
};

fn runs(fleet: &Fleet) -> [Series; 2] {
    [
        individuals::run(fleet, Seed(5)),
        cohorts::run(fleet, Seed(6)).unwrap(),
    ]
}

#[test]
fn synchronised_without_jitter_and_truncated_late_are_one_spike_a_period() {
    for (start, pace) in [
        (Start::AtOnce, Pace::Fixed),
        (Start::AtOnce, Pace::SlotsTruncatedLate),
    ] {
        let fleet = fleet(start, pace, None);
        for series in runs(&fleet) {
            for (index, bin) in series.bins().iter().enumerate() {
                let expected = if index % 30 == 0 { fleet.clients } else { 0 };
                assert_eq!(bin.first, expected);
            }
        }
    }
}

/// 1/(1 − f) attempts a call, in a cycle that is longer by the waits: 300/(300 + 10/3) and 300/(300 + 5) of it.
#[test]
fn a_quarter_of_failures() {
    let attempts = 1.0 / 0.75;
    for (growth, jitter, pace, waits) in [
        (Growth::Constant, Jitter::None, Pace::Fixed, 10.0 / 3.0),
        (doubling(), Jitter::None, JITTERED, 5.0),
        (doubling(), FACTOR, JITTERED, 5.0),
    ] {
        let mut fleet = fleet(Start::Settled, pace, Some(retry(growth, jitter)));
        fleet.duration = Duration::from_secs(9000);
        fleet.failures = vec![bad(0, 9000, 0.25)];
        let expected = attempts * 300.0 / (300.0 + waits);
        for series in runs(&fleet) {
            let found = series.relative_rate(at(1500), at(9000));
            assert!((found - expected).abs() < 0.006, "{found} for {expected}");
        }
    }
}

/// Delays of 10 to 160 s, five retries and 310 s of waits, then the next period: in a long outage 6 attempts in
/// 610 s.
#[test]
fn capped_retries_bound_what_an_outage_can_do() {
    let capped = Backoff {
        stop_beyond: Some(PERIOD),
        ..retry(doubling(), FACTOR)
    };
    let mut fleet = fleet(Start::Settled, JITTERED, Some(capped));
    fleet.duration = Duration::from_secs(12_000);
    fleet.failures = vec![bad(0, 12_000, 1.0)];
    for series in runs(&fleet) {
        let settled = series.between(at(3000), at(12_000));
        let per_call = settled.retries as f64 / settled.first as f64;
        assert!((per_call - 5.0).abs() < 0.05, "{per_call}");
        let rate = series.relative_rate(at(3000), at(12_000));
        assert!((rate - 6.0 * 300.0 / 610.0).abs() < 0.02, "{rate}");
    }
}

/// A stuck client has made ⌊log₂(u/10 + 1)⌋ retries after u seconds.
#[test]
fn a_stuck_client_retries_logarithmically() {
    let mut fleet = fleet(Start::AtOnce, Pace::Fixed, Some(retry(doubling(), Jitter::None)));
    fleet.failures = vec![bad(0, 1800, 1.0)];
    for series in runs(&fleet) {
        for u in (10..1800).step_by(10) {
            let made = series.between(at(0), at(u)).retries / fleet.clients;
            // What is sent at u itself stands in the bin that begins there.
            assert_eq!(made, u64::from(((u - 1) / 10 + 1).ilog2()), "after {u} s");
        }
    }
}

/// The same fleet without jitter on its period comes back in step for ever; with it, never again.
#[test]
fn jitter_on_the_period_ends_the_inadvertent_synchronisation() {
    for (pace, spike) in [(Pace::Fixed, 30.0), (JITTERED, 1.0)] {
        let mut fleet = fleet(Start::Settled, pace, Some(retry(Growth::Constant, Jitter::None)));
        fleet.failures = vec![bad(300, 900, 1.0)];
        for series in runs(&fleet) {
            let next = series.relative_rate(at(1200), at(1210));
            assert!((next - spike).abs() < 0.15 * spike, "{next}");
        }
    }
}
