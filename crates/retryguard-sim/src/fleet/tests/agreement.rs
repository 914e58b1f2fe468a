//! Cohorts and individuals agree in distribution wherever both can run.

use std::time::Duration;

use super::{FACTOR, JITTERED, at, bad, doubling, fleet, retry};
use crate::{
    fleet::{Fleet, Pace, Series, Start, cohorts, individuals},
    streams::Seed,
};
use retryguard_core::{
    Backoff, Ratio,
    backoff::{Growth, Jitter},
};

const RUNS: u64 = 120;

/// Every start and pace, every kind of retry, through a partial failure, an outage and the time after it.
fn worlds() -> Vec<(&'static str, Fleet)> {
    let capped = Backoff {
        stop_beyond: Some(super::PERIOD),
        ..retry(doubling(), FACTOR)
    };
    let fixed = retry(Growth::Constant, Jitter::None);
    let full = retry(Growth::Linear, Jitter::Full);
    vec![
        ("at once, jittered", fleet(Start::AtOnce, JITTERED, None)),
        (
            "after a wait, jittered, fixed retry",
            fleet(Start::AfterAWait, JITTERED, Some(fixed)),
        ),
        (
            "settled, fixed, fixed retry",
            fleet(Start::Settled, Pace::Fixed, Some(fixed)),
        ),
        (
            "settled, jittered, capped",
            fleet(Start::Settled, JITTERED, Some(capped)),
        ),
        (
            "slots, doubling",
            fleet(Start::AfterAWait, Pace::Slots, Some(retry(doubling(), FACTOR))),
        ),
        (
            "settled slots, full jitter",
            fleet(Start::Settled, Pace::Slots, Some(full)),
        ),
        (
            "truncated late",
            fleet(
                Start::AtOnce,
                Pace::SlotsTruncatedLate,
                Some(retry(Growth::Constant, FACTOR)),
            ),
        ),
    ]
    .into_iter()
    .map(|(name, fleet)| {
        let failures = vec![bad(300, 600, 0.25), bad(700, 1000, 1.0), bad(1200, 1800, 0.1)];
        // A crowd that acts as one and retries after 5 to 15 s stays in shape for a while: it needs finer steps.
        let step = if fleet.behaviour.pace == Pace::SlotsTruncatedLate {
            1
        } else {
            10
        };
        let step = Duration::from_secs(step);
        (
            name,
            Fleet {
                clients: 1200,
                failures,
                step,
                ..fleet
            },
        )
    })
    .collect()
}

/// Kolmogorov and Smirnov's test, over replications, of the counts in every minute, in whole periods (whose spread
/// depends on how minutes hang together) and in sum.
#[test]
fn cohorts_and_individuals_agree_in_distribution() {
    for (name, fleet) in worlds() {
        let one_by_one = observe(|seed| individuals::run(&fleet, seed));
        let as_counts = observe(|seed| cohorts::run(&fleet, Seed(seed.0 ^ 0xc0_4047)).unwrap());
        let worst = worst_distance(&one_by_one, &as_counts);
        assert!(worst < CRITICAL, "{name}: {worst}");
    }
}

/// The same test tells a jitter of 0.5–1.5 from one of 0.45–1.55, and 25 % failures from 27 %.
#[test]
fn the_comparison_can_tell_small_differences() {
    let (_, fleet) = worlds().swap_remove(3);
    let one_by_one = observe(|seed| individuals::run(&fleet, seed));
    let mut wider = fleet.clone();
    wider.behaviour.pace = Pace::Jittered {
        low: Ratio::percent(45),
        high: Ratio::percent(155),
    };
    let mut worse = fleet.clone();
    worse.failures[0].share = 0.27;
    for other in [wider, worse] {
        let as_counts = observe(|seed| cohorts::run(&other, Seed(seed.0 ^ 0xc0_4047)).unwrap());
        let worst = worst_distance(&one_by_one, &as_counts);
        assert!(worst > CRITICAL, "{worst}");
    }
}

/// The distance, times √(n/2), that one of about 700 comparisons exceeds by chance in one case of a hundred.
const CRITICAL: f64 = 2.45;

/// For each quantity, its values over the replications.
fn observe(run: impl Fn(Seed) -> Series) -> Vec<Vec<u64>> {
    let mut values: Vec<Vec<u64>> = Vec::new();
    for number in 0..RUNS {
        let series = run(Seed(17).replication(number));
        let of_run = quantities(&series);
        values.resize(of_run.len(), Vec::new());
        for (all, value) in values.iter_mut().zip(of_run) {
            all.push(value);
        }
    }
    values
}

fn quantities(series: &Series) -> Vec<u64> {
    let minutes = (0..30).map(|minute| (at(60 * minute), at(60 * minute + 60)));
    let periods = (0..6).map(|period| (at(300 * period), at(300 * period + 300)));
    minutes
        .chain(periods)
        .chain([(at(0), at(1800))])
        .flat_map(|(from, until)| {
            let bin = series.between(from, until);
            [bin.first, bin.retries, bin.failed]
        })
        .collect()
}

fn worst_distance(left: &[Vec<u64>], right: &[Vec<u64>]) -> f64 {
    let scaled = (RUNS as f64 / 2.0).sqrt();
    left.iter()
        .zip(right)
        .map(|(left, right)| distance(left, right) * scaled)
        .fold(0.0, f64::max)
}

/// The largest difference of the two empirical distributions.
fn distance(left: &[u64], right: &[u64]) -> f64 {
    let share = |values: &[u64], most: u64| {
        values.iter().filter(|value| **value <= most).count() as f64 / values.len() as f64
    };
    left.iter()
        .chain(right)
        .map(|value| (share(left, *value) - share(right, *value)).abs())
        .fold(0.0, f64::max)
}
