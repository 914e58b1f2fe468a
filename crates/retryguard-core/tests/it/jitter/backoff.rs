//! The waits before retries.

use std::time::Duration;

use retryguard_core::{
    Backoff, Ratio,
    backoff::{Growth, Jitter},
    chance::Highest,
};

use super::statistics::{assert_uniform, mean_and_variance};
use crate::support::{FAULT, SplitMix, at, call, failed, ms, plain, sent, target};

const DRAWS: usize = 20_000;

fn backoff(jitter: Jitter) -> Backoff {
    Backoff {
        growth: Growth::Exponential(Ratio::percent(200)),
        initial: ms(100),
        cap: ms(1000),
        jitter,
        stop_beyond: None,
    }
}

fn draws(backoff: &Backoff, retry: u32, previous: Duration) -> Vec<f64> {
    let mut chance = SplitMix(u64::from(retry) + 1);
    (0..DRAWS)
        .map(|_| {
            backoff
                .delay(retry, previous, &mut chance)
                .expect("no end")
                .as_secs_f64()
        })
        .collect()
}

/// The nominal delays of the first retries, capped at a second.
const NOMINAL: [f64; 6] = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0];

#[test]
fn full_is_uniform_up_to_the_nominal_delay() {
    for (retry, nominal) in (1..).zip(NOMINAL) {
        assert_uniform(
            &draws(&backoff(Jitter::Full), retry, Duration::ZERO),
            0.0,
            nominal,
        );
    }
}

#[test]
fn equal_is_uniform_over_the_upper_half() {
    for (retry, nominal) in (1..).zip(NOMINAL) {
        assert_uniform(
            &draws(&backoff(Jitter::Equal), retry, Duration::ZERO),
            nominal / 2.0,
            nominal,
        );
    }
}

#[test]
fn a_factor_is_uniform_between_its_bounds_and_beyond_the_cap() {
    let half = Jitter::Factor {
        low: Ratio::percent(50),
        high: Ratio::percent(150),
    };
    for (retry, nominal) in (1..).zip(NOMINAL) {
        assert_uniform(
            &draws(&backoff(half), retry, Duration::ZERO),
            0.5 * nominal,
            1.5 * nominal,
        );
    }
}

/// Given the wait before, the next is uniform between the initial delay and three times that wait; the retry's
/// number does not matter.
#[test]
fn decorrelated_is_uniform_given_the_wait_before() {
    for (previous, top) in [(0, 0.3), (40, 0.3), (100, 0.3), (200, 0.6), (333, 0.999)] {
        for retry in [1, 4] {
            assert_uniform(
                &draws(&backoff(Jitter::Decorrelated), retry, ms(previous)),
                0.1,
                top,
            );
        }
    }
}

/// `min(cap, U(base, 3 · previous))`: what is drawn beyond the cap is the cap, and below it the draw is uniform.
#[test]
fn decorrelated_is_clipped_at_the_cap() {
    let all = draws(&backoff(Jitter::Decorrelated), 3, ms(900));
    let (capped, below): (Vec<f64>, Vec<f64>) = all.iter().partition(|&&wait| wait >= 1.0);
    assert!(capped.iter().all(|&wait| wait == 1.0));
    let (share, expected) = (capped.len() as f64 / all.len() as f64, (2.7 - 1.0) / (2.7 - 0.1));
    let error = (expected * (1.0 - expected) / all.len() as f64).sqrt();
    assert!((share - expected).abs() < 5.0 * error, "{share}");
    assert_uniform(&below, 0.1, 1.0);
}

/// A chain of waits, each fed with the one before: the mean of the second is that of (base + 3·first)/2.
#[test]
fn decorrelated_feeds_on_itself() {
    let backoff = Backoff {
        cap: Duration::from_secs(1000),
        ..backoff(Jitter::Decorrelated)
    };
    let mut chance = SplitMix(7);
    let seconds: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let first = backoff.delay(1, Duration::ZERO, &mut chance).expect("no end");
            backoff
                .delay(2, first, &mut chance)
                .expect("no end")
                .as_secs_f64()
        })
        .collect();
    let (mean, variance) = mean_and_variance(&seconds);
    let expected = (0.1 + 3.0 * 0.2) / 2.0;
    assert!(
        (mean - expected).abs() < 5.0 * (variance / DRAWS as f64).sqrt(),
        "{mean}"
    );
}

#[test]
fn none_is_no_spread_at_all() {
    let (mean, variance) = mean_and_variance(&draws(&backoff(Jitter::None), 3, Duration::ZERO));
    assert!((mean - 0.4).abs() < 1e-9 && variance < 1e-18);
}

/// Through the whole composition: calls that fail together come back spread over the nominal delay.
#[test]
fn calls_that_fail_together_come_back_apart() {
    let mut settings = plain();
    settings.call.backoff = Backoff {
        cap: ms(1000),
        ..Backoff::default()
    };
    let mut target = target(settings);
    let mut chance = SplitMix(42);
    let moments: Vec<f64> = (0..DRAWS as u64)
        .map(|ticket| {
            let mut call = call(ticket);
            sent(call.start(&mut target, at(0), &mut chance));
            call.on_outcome(1, &failed(FAULT), &mut target, at(0), &mut chance);
            let due = call.next_timer().expect("a retry waits");
            call.abandon(&mut target);
            due.as_nanos() as f64
        })
        .collect();
    assert_uniform(&moments, 0.0, 1e8);
}

/// A call hands each wait to the next: at the high end they triple.
#[test]
fn a_call_remembers_its_last_wait() {
    let mut settings = plain();
    settings.call.backoff = backoff(Jitter::Decorrelated);
    let mut target = target(settings);
    let mut call = call(1);
    sent(call.start(&mut target, at(0), &mut Highest));
    call.on_outcome(1, &failed(FAULT), &mut target, at(0), &mut Highest);
    assert_eq!(call.next_timer(), Some(at(300)));
    sent(call.on_timer(&mut target, at(300), &mut Highest));
    call.on_outcome(2, &failed(FAULT), &mut target, at(300), &mut Highest);
    assert_eq!(call.next_timer(), Some(at(300 + 900)));
    call.abandon(&mut target);
}
