use super::*;
use crate::time::Instant;

const LATENCY: u64 = 20_000_000;

/// A client that would keep so many attempts under way, before a target whose answers take 20 ms.
struct Client {
    experiment: Experiment,
    pace: Pace,
    failing: f64,
    in_a_row: u8,
    now: u64,
    number: u64,
}

impl Client {
    fn new() -> Self {
        Self {
            experiment: Experiment::new(),
            pace: Pace::default(),
            failing: 0.0,
            in_a_row: 0,
            now: 0,
            number: 0,
        }
    }

    /// Runs for so many seconds. `succeeds` is the share of attempts that succeed, by how many are under way.
    fn run(&mut self, seconds: u64, demand: f64, succeeds: impl Fn(f64) -> f64) {
        let ends = self.now + seconds * 1_000_000_000;
        while self.now < ends {
            let used = self.experiment.level().floor().max(1.0).min(demand);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small and positive"
            )]
            let gap = (LATENCY as f64 / used) as u64;
            self.now += gap;
            self.number += 1;
            // Spread evenly, but not in the rhythm of the slots.
            let drawn = (self.number * 61 % 97) as f64 / 97.0;
            let success = drawn < succeeds(used);
            self.failing += (f64::from(u8::from(!success)) - self.failing) / 32.0;
            if success {
                self.pace
                    .on_end(true, LATENCY, None, Instant::from_nanos(self.now));
            }
            let ended = Ended {
                success,
                started: self.now.saturating_sub(LATENCY),
                now: self.now,
            };
            self.in_a_row = if success {
                self.in_a_row.saturating_add(1)
            } else {
                0
            };
            let traffic = Traffic {
                failing: self.failing,
                in_a_row: self.in_a_row,
                retries_help: false,
                used,
                gap: LATENCY as f64 / demand,
            };
            self.experiment.on_end(ended, &traffic, &self.pace);
        }
    }
}

/// From four attempts on, more and more fail.
fn by_load(used: f64) -> f64 {
    (1.3 - 0.08 * used).clamp(0.02, 1.0)
}

#[test]
fn random_failures_limit_nothing() {
    for share in [0.2, 0.5, 0.65] {
        let mut client = Client::new();
        client.run(120, 14.0, |_| share);
        assert!(
            client.experiment.level >= 14.0,
            "{share}: {}",
            client.experiment.level
        );
    }
}

#[test]
fn failures_that_grow_with_load_lower_the_level() {
    let mut client = Client::new();
    client.run(60, 15.0, by_load);
    let level = client.experiment.level;
    assert!((4.0..11.0).contains(&level), "{level}");
    let served = |used: f64| used * by_load(used);
    assert!(
        served(level.floor()) > 2.0 * served(15.0),
        "{level} serves {}, and no limit {}",
        served(level.floor()),
        served(15.0)
    );
}

#[test]
fn the_level_is_lifted_once_little_fails() {
    let mut client = Client::new();
    client.run(60, 15.0, by_load);
    assert!(client.experiment.level < 15.0);
    client.run(20, 15.0, |_| 1.0);
    assert_eq!(client.experiment.level, f64::INFINITY);
    assert!(client.experiment.is_over(client.failing));
}

#[test]
fn a_level_that_has_become_too_low_is_raised_though_many_fail() {
    let mut client = Client::new();
    client.run(60, 15.0, by_load);
    let low = client.experiment.level;
    assert!(low < 15.0);
    client.run(120, 15.0, |_| 0.7);
    assert!(
        client.experiment.level >= 15.0,
        "{low} became {}",
        client.experiment.level
    );
}

#[test]
fn experiments_that_find_nothing_become_rarer() {
    let mut client = Client::new();
    client.run(600, 14.0, |_| 0.5);
    assert_eq!(client.experiment.next_pause, LONGEST_PAUSE);
}

#[test]
fn a_client_with_few_attempts_tries_nothing() {
    let mut experiment = Experiment::new();
    let pace = Pace::default();
    for second in 0..600_u64 {
        let ended = Ended {
            success: second % 2 == 0,
            started: second * 1_000_000_000,
            now: second * 1_000_000_000 + LATENCY,
        };
        let traffic = Traffic {
            failing: 0.5,
            in_a_row: 0,
            retries_help: false,
            used: 0.02,
            gap: 1e9,
        };
        experiment.on_end(ended, &traffic, &pace);
        assert_eq!(experiment.level(), f64::INFINITY);
    }
}

#[test]
fn slots_follow_latency_and_traffic_within_their_bounds() {
    let slot = |latency: u64, gap: f64| {
        let mut pace = Pace::default();
        pace.on_end(true, latency, None, Instant::from_secs(1));
        let traffic = Traffic {
            failing: 0.5,
            in_a_row: 0,
            retries_help: false,
            used: 1.0,
            gap,
        };
        slot_for(&traffic, &pace)
    };
    assert_eq!(slot(1_000_000, 1e6), SHORTEST);
    assert_eq!(slot(50_000_000, 1e6), 2 * SHORTEST);
    assert_eq!(slot(1_000_000, 60e6), 4 * SHORTEST);
    assert_eq!(slot(100_000_000_000, 1e6), LONGEST);
}
