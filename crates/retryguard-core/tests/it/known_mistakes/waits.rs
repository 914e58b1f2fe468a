//! Waits that do not spread anything.

use std::{collections::HashSet, time::Duration};

use retryguard_core::{
    Backoff, Ratio, Target,
    backoff::Jitter,
    call,
    chance::{Highest, Lowest},
    target::Settings,
};

use crate::support::{FAULT, SplitMix, at, failed, started, target};

fn first_delay(backoff: &Backoff, chance: &mut SplitMix) -> Duration {
    backoff
        .delay(1, Duration::ZERO, chance)
        .expect("a first retry is allowed")
}

#[test]
fn jitter_off_by_default() {
    assert_eq!(call::Settings::default().backoff.jitter, Jitter::Full);
    let backoff = Backoff::default();
    assert_eq!(
        backoff.delay(1, Duration::ZERO, &mut Lowest),
        Some(Duration::ZERO)
    );
    assert_eq!(
        backoff.delay(1, Duration::ZERO, &mut Highest),
        Some(Duration::from_millis(100))
    );
}

/// Seconds and nanoseconds that are scaled apart give a base of whole seconds no jitter at all; a base that is
/// scaled in milliseconds gives one of a microsecond none.
#[test]
fn jitter_lost_to_rounding() {
    let half = Jitter::Factor {
        low: Ratio::percent(50),
        high: Ratio::percent(150),
    };
    for jitter in [Jitter::Full, Jitter::Equal, half, Jitter::Decorrelated] {
        for initial in [
            Duration::from_micros(1),
            Duration::from_secs(1),
            Duration::from_secs(3600),
        ] {
            let backoff = Backoff {
                jitter,
                initial,
                cap: initial * 3,
                ..Backoff::default()
            };
            let mut chance = SplitMix(1);
            let delays: HashSet<Duration> = (0..1000).map(|_| first_delay(&backoff, &mut chance)).collect();
            assert!(
                delays.len() > 300,
                "{jitter:?} of {initial:?}: {} values",
                delays.len()
            );
        }
    }
}

/// A generator that lives in the policy is copied with it, and every clone draws the same. Here the clones of
/// a target hold no generator; each driver brings its own.
#[test]
fn every_clone_drawing_the_same_jitter() {
    let original = target(Settings::default());
    let due = |mut target: Target, seed| {
        let mut call = started(1, &mut target, at(0));
        call.on_outcome(1, &failed(FAULT), &mut target, at(0), &mut SplitMix(seed));
        let due = call.next_timer();
        call.abandon(&mut target);
        due
    };
    let moments: HashSet<_> = (0..100).map(|seed| due(original.clone(), seed)).collect();
    assert_eq!(moments.len(), 100);
}

#[test]
fn no_backoff_at_all() {
    let backoff = call::Settings::default().backoff;
    let longest: Vec<u128> = (1..=8).map(|retry| backoff.longest(retry).as_millis()).collect();
    assert_eq!(longest, [100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
}
