//! The whole curve of a plot against its closed form, bin by bin, in both ways to run a fleet.

use std::time::Duration;

use super::{FACTOR, JITTERED, PERIOD, bad, doubling, fleet, retry};
use crate::{
    fleet::{Fleet, Pace, Series, Start, cohorts, individuals},
    streams::Seed,
};
use retryguard_core::backoff::{Growth, Jitter};

/// Jittered start and jittered waits: the request number n comes after a sum of n uniform waits.
#[test]
fn a_jittered_start_oscillates_as_sums_of_uniform_waits_do() {
    let settled = fleet(Start::AfterAWait, JITTERED, None);
    both(&settled, |from, until| renewals(until) - renewals(from));
    // The values that are known by heart.
    for (at, rate) in [
        (149.0, 0.0),
        (200.0, 1.0),
        (449.999, 1.5),
        (450.001, 0.5),
        (600.0, 1.125),
    ] {
        let slope = (renewals(at + 1e-4) - renewals(at - 1e-4)) / 2e-4 * 300.0;
        assert!((slope - rate).abs() < 1e-3, "{at}: {slope}");
    }
}

#[test]
fn a_start_at_once_is_a_spike_and_then_the_same() {
    let together = fleet(Start::AtOnce, JITTERED, None);
    both(&together, |from, until| {
        renewals(until) - renewals(from) + if from == 0.0 { 1.0 } else { 0.0 }
    });
}

#[test]
fn truncate_then_add_is_exactly_uniform() {
    let slots = fleet(Start::AfterAWait, Pace::Slots, None);
    both(
        &slots,
        |from, until| if from < 300.0 { 0.0 } else { (until - from) / 300.0 },
    );
    for series in runs(&slots) {
        for period in series.coarser(30).bins().iter().skip(1) {
            assert_eq!(period.first, slots.clients);
        }
    }
}

/// Clients enter the outage at the even rate until all are in it, and each sends every 10 s from then on.
#[test]
fn fixed_retries_rise_to_thirty_and_stay_in_step_afterwards() {
    let mut outage = fleet(
        Start::Settled,
        Pace::Fixed,
        Some(retry(Growth::Constant, Jitter::None)),
    );
    outage.failures = vec![bad(300, 900, 1.0)];
    both(&outage, |from, _| {
        let into = from - 300.0;
        let rate = match into {
            _ if into < 0.0 => 1.0,
            _ if into < 300.0 => 1.0 + into / 10.0,
            _ if into < 610.0 => 30.0,
            // All succeeded within the 10 s after the end, and come back together every period.
            _ if (into - 600.0) % 300.0 < 10.0 => 30.0,
            _ => 0.0,
        };
        rate * 10.0 / 300.0
    });
}

/// Without jitter on retries, the k-th retry follows the first failure by 10·(2^k − 1) s.
#[test]
fn doubling_retries_step_up_at_each_power_of_two() {
    let mut outage = fleet(Start::Settled, JITTERED, Some(retry(doubling(), Jitter::None)));
    outage.failures = vec![bad(300, 1800, 1.0)];
    both(&outage, |from, until| {
        if from < 300.0 {
            return (until - from) / 300.0;
        }
        let entered = |u: f64| first_failures(u - 300.0);
        (0..8)
            .map(|k| {
                let later = 10.0 * (f64::from(k).exp2() - 1.0);
                entered(until - later) - entered(from - later)
            })
            .sum()
    });
}

/// Jitter on the retries smears each step over its sum of waits and leaves their number.
#[test]
fn jittered_doubling_sends_as_much_and_smoother() {
    let with = |jitter| {
        let mut outage = fleet(Start::Settled, JITTERED, Some(retry(doubling(), jitter)));
        outage.clients = 60_000;
        outage.failures = vec![bad(300, 1800, 1.0)];
        outage
    };
    let (sharp, smooth) = (with(Jitter::None), with(FACTOR));
    for (sharp, smooth) in runs(&sharp).into_iter().zip(runs(&smooth)) {
        let (all, smoothed) = (sharp.total().retries as f64, smooth.total().retries as f64);
        assert!((smoothed / all - 1.0).abs() < 0.02, "{all} {smoothed}");
        // The steepest rise between neighbouring bins from the second retry on: a whole step against half of one.
        let steepest = |series: &Series| {
            let rates: Vec<f64> = series.rates().skip(32).collect();
            rates.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
        };
        assert!(
            steepest(&smooth) < 0.7 * steepest(&sharp),
            "{} {}",
            steepest(&smooth),
            steepest(&sharp)
        );
    }
}

fn runs(fleet: &Fleet) -> [Series; 2] {
    [
        individuals::run(fleet, Seed(3)),
        cohorts::run(fleet, Seed(4)).unwrap(),
    ]
}

/// Chi-square of a run against the expected share of all clients that send in each bin.
fn both(fleet: &Fleet, share: impl Fn(f64, f64) -> f64) {
    let step = fleet.step.as_secs_f64();
    for (way, series) in ["individuals", "cohorts"].iter().zip(runs(fleet)) {
        let (mut square, mut freedom) = (0.0, 0.0);
        for (index, bin) in series.bins().iter().enumerate() {
            let from = index as f64 * step;
            let expected = share(from, from + step) * fleet.clients as f64;
            let found = bin.attempts() as f64;
            if expected < 5.0 {
                assert!(
                    found <= expected + 25.0,
                    "{way} at {from}: {found}, expected {expected}"
                );
                continue;
            }
            square += (found - expected) * (found - expected) / expected;
            freedom += 1.0;
        }
        let limit = freedom + 5.0 * (2.0_f64 * freedom).sqrt();
        assert!(square < limit, "{way}: {square} of {freedom}");
    }
}

/// Expected requests per client up to a moment, after which the n-th wait has ended: the sum over n of Irwin's and
/// Hall's distribution of n uniform waits of 150 to 450 s.
fn renewals(until: f64) -> f64 {
    let most = 12;
    assert!(until <= 150.0 * f64::from(most), "more waits than are added up");
    (1..=most)
        .map(|n| irwin_hall(n, (until - 150.0 * f64::from(n)) / 300.0))
        .sum()
}

fn irwin_hall(n: u32, x: f64) -> f64 {
    if x >= f64::from(n) {
        return 1.0;
    }
    let mut binomial = 1.0;
    let mut sum = 0.0;
    for k in 0..=n {
        if f64::from(k) < x {
            sum += binomial * (x - f64::from(k)).powf(f64::from(n));
        }
        binomial *= -f64::from(n - k) / f64::from(k + 1);
    }
    sum / (1..=n).map(f64::from).product::<f64>()
}

/// The share of a settled, jittered fleet that has met an outage of this age: the rest of a wait of 150 to 450 s.
fn first_failures(age: f64) -> f64 {
    let age = age.clamp(0.0, 450.0);
    if age < 150.0 {
        age / 300.0
    } else {
        1.0 - (450.0 - age) * (450.0 - age) / 600.0 / 300.0
    }
}

#[test]
fn the_even_rate_is_a_request_a_period() {
    let even = fleet(Start::Settled, Pace::Fixed, None);
    assert!((even.even_rate() * PERIOD.as_secs_f64() - even.clients as f64).abs() < 1e-6);
    assert_eq!(individuals::run(&even, Seed(1)).step(), Duration::from_secs(10));
}
