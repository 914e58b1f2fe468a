//! The number of attempts under way that serves most, found without an experiment.
//!
//! How many attempts a client has under way varies by itself. Where a larger share of them fails the more there are, what became
//! of them shows which number serves most (see [`Levels`]). That needs a client whose attempts are a good part of the target's load. For
//! one among many, failures hardly depend on its own number, and nothing is limited.

use std::time::Duration;

use crate::{levels::Levels, time::Instant};

/// What became of attempts by how many were under way, and the limit that follows from it.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    levels: Levels,
    /// Attempts that may be under way. Infinite where more serve as many.
    bound: f64,
    /// Attempts that ended in the present interval, and when it began.
    ended: u8,
    began: Instant,
}

/// An interval has so many attempts, and lasts so long at the least.
const ATTEMPTS: u8 = 16;
const INTERVAL: Duration = Duration::from_millis(100);
/// The deepest cut of an interval, and its growth.
const SHRINK: f64 = 0.7;
const GROW: f64 = 1.05;

impl Profile {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            levels: Levels::default(),
            bound: f64::INFINITY,
            ended: 0,
            began: now,
        }
    }

    /// Attempts that may be under way.
    #[inline]
    pub(super) const fn bound(&self) -> f64 {
        self.bound
    }

    /// Whether nothing is limited and nothing has failed lately.
    pub(super) fn is_over(&self) -> bool {
        self.bound == f64::INFINITY && self.levels.is_quiet()
    }

    /// An attempt has ended, and `taken` were under way with it.
    pub(super) fn on_end(&mut self, failed: bool, started: Instant, taken: u32, now: Instant) {
        self.levels
            .on_end(taken, failed, now.since(started).as_secs_f64());
        self.ended = self.ended.saturating_add(1);
        if self.ended >= ATTEMPTS && now >= self.began.after(INTERVAL) {
            self.end_interval(f64::from(taken));
            (self.ended, self.began) = (0, now);
        }
    }

    fn end_interval(&mut self, taken: f64) {
        let best = self.levels.best();
        self.levels.forget();
        if let Some(best) = best.filter(|best| *best < self.bound) {
            self.bound = best.max(SHRINK * self.bound.min(taken));
            return;
        }
        // Higher numbers are forgotten in time, so they are tried again now and then.
        self.bound *= GROW;
        if self.bound > 2.0 * taken + 2.0 {
            self.bound = f64::INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that keeps as many attempts under way as it may, ten at the most, each for 10 ms. Of those that are sent beside
    /// `n` others, the share `failing(n + 1)` fails. Returns the successes of each second.
    fn run(profile: &mut Profile, seconds: u64, from: u64, failing: impl Fn(u32) -> f64) -> Vec<u32> {
        let mut due = 0.0;
        let served = |second: u64, profile: &mut Profile, due: &mut f64| {
            let mut succeeded = 0;
            for step in 0..100_u32 {
                let now = Instant::from_millis((from + second) * 1000 + u64::from(step) * 10 + 10);
                // What is sent varies: from one up to what is allowed.
                let wanted = 1 + (step * 7 % 10);
                let taken = (1..=wanted)
                    .take_while(|number| *number == 1 || f64::from(*number) <= profile.bound())
                    .fold(1, u32::max);
                for _ in 0..taken {
                    *due += failing(taken);
                    let failed = *due >= 1.0;
                    *due -= f64::from(u8::from(failed));
                    succeeded += u32::from(!failed);
                    profile.on_end(
                        failed,
                        Instant::from_nanos(now.as_nanos() - 10_000_000),
                        taken,
                        now,
                    );
                }
            }
            succeeded
        };
        (0..seconds)
            .map(|second| served(second, profile, &mut due))
            .collect()
    }

    #[test]
    fn failures_by_number_find_the_number_that_serves_most() {
        let mut profile = Profile::new(Instant::ZERO);
        let cliff = |number: u32| if number > 3 { 0.9 } else { 0.0 };
        let served = run(&mut profile, 60, 0, cliff);
        let last = served.iter().rev().take(20).sum::<u32>();
        // Three at a time serve 270 a second here, ten about 130.
        assert!(last > 20 * 220, "{served:?}");
        assert!(served[0] < 150, "{served:?}");
    }

    #[test]
    fn random_failures_limit_nothing() {
        for share in [0.1, 0.4, 0.8] {
            let mut profile = Profile::new(Instant::ZERO);
            run(&mut profile, 60, 0, |_| share);
            assert_eq!(profile.bound(), f64::INFINITY, "{share}");
        }
    }

    #[test]
    fn the_limit_ends_with_the_failures() {
        let mut profile = Profile::new(Instant::ZERO);
        run(&mut profile, 30, 0, |number| if number > 3 { 0.9 } else { 0.0 });
        assert!(profile.bound() < 6.0);
        run(&mut profile, 90, 30, |_| 0.0);
        assert_eq!(profile.bound(), f64::INFINITY);
        assert!(profile.is_over());
    }
}
