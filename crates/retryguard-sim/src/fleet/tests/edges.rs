//! What cannot be carried, and what must not be lost.

use std::time::Duration;

use super::{FACTOR, JITTERED, bad, doubling, fleet, retry};
use crate::{
    fleet::{Fleet, Pace, Start, cohorts, cohorts::CohortError, individuals},
    streams::Seed,
};
use retryguard_core::backoff::{Growth, Jitter};

#[test]
fn the_same_seed_gives_the_same_series() {
    let mut fleet = fleet(Start::AfterAWait, JITTERED, Some(retry(doubling(), FACTOR)));
    fleet.failures = vec![bad(300, 600, 0.5)];
    assert_eq!(
        individuals::run(&fleet, Seed(9)),
        individuals::run(&fleet, Seed(9))
    );
    assert_eq!(cohorts::run(&fleet, Seed(9)), cohorts::run(&fleet, Seed(9)));
    assert_ne!(cohorts::run(&fleet, Seed(9)), cohorts::run(&fleet, Seed(10)));
}

/// Two billion clients, none lost: each slot has every one of them once.
#[test]
fn two_billion_clients_are_all_counted() {
    let devices = Fleet {
        clients: 2_000_000_000,
        ..fleet(Start::Settled, Pace::Slots, None)
    };
    let series = cohorts::run(&devices, Seed(1)).unwrap();
    for period in series.coarser(30).bins() {
        assert_eq!(period.first, devices.clients);
    }
    let spread = series.rates().map(|rate| (rate - 1.0).abs()).fold(0.0, f64::max);
    assert!(spread < 1e-3, "{spread}");
}

#[test]
fn what_counts_cannot_resolve_is_said() {
    let base = fleet(Start::Settled, Pace::Fixed, None);
    let with = |change: fn(&mut Fleet)| {
        let mut fleet = base.clone();
        change(&mut fleet);
        cohorts::run(&fleet, Seed(1)).unwrap_err()
    };
    let period = with(|fleet| fleet.behaviour.period = Duration::from_secs(301));
    assert_eq!(period, CohortError::Step("the period and the duration"));
    let outage = with(|fleet| fleet.failures = vec![bad(5, 20, 1.0)]);
    assert!(
        outage
            .to_string()
            .contains("beginning and the end of every bad time")
    );
    let wait = with(|fleet| {
        fleet.behaviour.retry = Some(retry(Growth::Constant, Jitter::None));
        fleet.step = Duration::from_secs(4);
    });
    assert_eq!(wait, CohortError::Step("every wait without jitter"));
    let memory = with(|fleet| fleet.behaviour.retry = Some(retry(doubling(), Jitter::Decorrelated)));
    assert_eq!(memory, CohortError::Decorrelated);
    let now = with(|fleet| {
        let at_once = retry(Growth::Constant, Jitter::None);
        fleet.behaviour.retry = Some(retryguard_core::Backoff {
            initial: Duration::ZERO,
            ..at_once
        });
    });
    assert_eq!(now, CohortError::Step("every wait without jitter"));
}

/// Overlapping bad times: a request must survive each.
#[test]
fn bad_times_add_up_as_chances_do() {
    let mut fleet = fleet(Start::Settled, Pace::Fixed, None);
    fleet.failures = vec![bad(0, 100, 0.5), bad(50, 200, 0.5)];
    let at = |seconds| fleet.failure_at(super::at(seconds));
    assert_eq!([at(0), at(50), at(100), at(200)], [0.5, 0.75, 0.5, 0.0]);
}
