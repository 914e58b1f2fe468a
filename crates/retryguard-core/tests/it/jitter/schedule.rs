//! Periodic work of a fleet that starts together.

use std::time::Duration;

use retryguard_core::{Chance, Instant, schedule::Schedule};

use super::statistics::chi_square;
use crate::support::SplitMix;

const FLEET: u64 = 30_000;
const PERIOD: Duration = Duration::from_secs(300);
const BINS: usize = 30;
/// Above this once in a thousand fleets that are truly flat over 30 bins.
const FLAT: f64 = 58.3;

/// How many of `moments` fall into each tenth-of-a-minute of slot `slot`.
fn bins(moments: &[Instant], slot: u64) -> Vec<u64> {
    let mut bins = vec![0; BINS];
    for moment in moments {
        let second = moment.as_nanos() / 1_000_000_000;
        if second / 300 == slot {
            bins[usize::try_from(second % 300 / 10).expect("few")] += 1;
        }
    }
    bins
}

/// Every execution of the fleet up to slot 4, from a start that all share.
fn fleet(start: u64, jittered_start: bool) -> Vec<Instant> {
    let schedule = Schedule::new(PERIOD);
    let mut chance = SplitMix(start);
    let mut moments = Vec::new();
    for _ in 0..FLEET {
        let mut now = Instant::from_secs(start);
        if jittered_start {
            now = schedule.first(now, &mut chance);
            moments.push(now);
        }
        while now < Instant::from_secs(4 * 300) {
            now = schedule.next(now, &mut chance).expect("far from the end of time");
            moments.push(now);
        }
    }
    moments
}

/// Truncate to the slot, then add the draw: whatever the start, flat from the first full slot on, and exactly
/// one execution of every client in each.
#[test]
fn a_fleet_that_starts_together_is_flat_from_the_first_full_slot_on() {
    for start in [0, 77, 299] {
        let moments = fleet(start, false);
        for slot in 1..4 {
            let bins = bins(&moments, slot);
            assert_eq!(bins.iter().sum::<u64>(), FLEET);
            assert!(
                chi_square(&bins) < FLAT,
                "start {start}, slot {slot}: {}",
                chi_square(&bins)
            );
        }
    }
}

/// With a jittered start the first execution is flat over one period from the start. Where that period
/// straddles two slots, the load is flat from the slot after both.
#[test]
fn a_jittered_start_is_flat_over_one_period_and_again_once_it_is_over() {
    let at_edge = fleet(0, true);
    for slot in 0..4 {
        assert!(chi_square(&bins(&at_edge, slot)) < FLAT, "slot {slot}");
    }
    let between = fleet(150, true);
    for slot in 2..4 {
        assert!(chi_square(&bins(&between, slot)) < FLAT, "slot {slot}");
    }
    let first: Vec<Instant> = {
        let schedule = Schedule::new(PERIOD);
        let mut chance = SplitMix(5);
        (0..FLEET)
            .map(|_| schedule.first(Instant::from_secs(300), &mut chance))
            .collect()
    };
    assert!(chi_square(&bins(&first, 1)) < FLAT);
}

/// The other order, as a test of the test: add the draw, then truncate, puts the whole fleet on one second.
#[test]
fn adding_before_truncating_would_put_all_clients_on_the_edge() {
    let mut chance = SplitMix(9);
    let now = Instant::from_secs(450);
    let moments: Vec<Instant> = (0..FLEET)
        .map(|_| {
            let drawn = now.after(Duration::from_nanos(chance.below(300_000_000_000)));
            Instant::from_secs(drawn.as_nanos() / 300_000_000_000 * 300 + 300)
        })
        .collect();
    let bins = bins(&moments, 2);
    assert_eq!(bins[0], bins.iter().sum::<u64>());
    assert!(chi_square(&bins) > FLAT);
}

/// Jittering the period instead lets a fleet that started together swing: nothing for half a period, then all.
#[test]
fn jittering_the_period_would_not_be_flat() {
    let mut chance = SplitMix(11);
    let mut moments = Vec::new();
    for _ in 0..FLEET {
        let mut now = Instant::ZERO;
        while now < Instant::from_secs(900) {
            now = now.after(Duration::from_secs(150) + chance.up_to(PERIOD));
            moments.push(now);
        }
    }
    assert!(chi_square(&bins(&moments, 1)) > FLAT);
}
