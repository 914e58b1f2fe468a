//! Who calls from outside.

use std::time::Duration;

use retryguard_core::{Criticality, Instant};

use crate::distribution::Distribution;

/// A group of clients that behave alike.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// The way that its calls take.
    pub edge: usize,
    /// When it calls.
    pub arrivals: Arrivals,
    /// How many clients there are that keep state of their own; calls are dealt out to them in turn. For
    /// users this is their number.
    pub clients: u32,
    /// How much its calls matter.
    pub criticality: Criticality,
    /// Whether its requests may be done twice.
    pub idempotent: bool,
    /// How far each client's clock is off the true time, ahead or behind with equal chance.
    pub clock_skew: Distribution,
    /// How long a call may take, whatever the policy says.
    pub deadline: Option<Duration>,
    /// The share of requests that the user sends a second time under the same key, as an impatient person
    /// does.
    pub replays: f64,
}

/// When calls begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Whatever happens to the calls before: so many a second.
    Open {
        /// How many, over time.
        rate: Profile,
        /// At random (Poisson), or evenly spaced.
        random: bool,
    },
    /// Users who wait for their answer, think, and call again.
    Closed {
        /// How many, over time.
        users: Profile,
        /// How long they think.
        think: Distribution,
    },
}

/// A number that changes over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile(Vec<Stage>);

/// From `at` on the number moves to `level`, over the time `over`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stage {
    at: Instant,
    level: f64,
    over: Duration,
}

impl Profile {
    /// Always the same.
    #[must_use]
    pub fn constant(level: f64) -> Self {
        Self(vec![Stage {
            at: Instant::ZERO,
            level,
            over: Duration::ZERO,
        }])
    }

    /// The same with another level from `at` on, reached in a straight line over `over`. Stages are added in
    /// the order of time.
    #[must_use]
    pub fn then(mut self, at: Instant, level: f64, over: Duration) -> Self {
        self.0.push(Stage { at, level, over });
        self
    }

    /// Whether it never changes.
    #[inline]
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.0.len() == 1
    }

    /// The number at a time.
    #[must_use]
    pub fn at(&self, now: Instant) -> f64 {
        let mut before = 0.0;
        for (index, stage) in self.0.iter().enumerate() {
            let ends = self.0.get(index + 1).map_or(Instant::NEVER, |next| next.at);
            if now < ends || index + 1 == self.0.len() {
                return stage.level_at(before, now);
            }
            before = stage.level_at(before, ends);
        }
        before
    }

    /// The largest number from `now` until the present stage changes its course, and when that is: at the end
    /// of its ramp or at the next stage. What thinning needs.
    #[must_use]
    pub fn bound(&self, now: Instant) -> (f64, Instant) {
        let next = self.next_stage(now).unwrap_or(Instant::NEVER);
        let ramp = self
            .0
            .iter()
            .rev()
            .find(|stage| stage.at <= now)
            .map_or(now, |it| it.at.after(it.over));
        let ends = if now < ramp { next.min(ramp) } else { next };
        let last = Instant::from_nanos(ends.as_nanos() - 1);
        (self.at(now).max(self.at(last)), ends)
    }

    /// When a stage begins, after `now`.
    #[must_use]
    pub fn next_stage(&self, now: Instant) -> Option<Instant> {
        self.0.iter().map(|stage| stage.at).find(|&at| at > now)
    }

    /// The largest number of all.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.0.iter().map(|stage| stage.level).fold(0.0, f64::max)
    }
}

impl Stage {
    fn level_at(&self, before: f64, now: Instant) -> f64 {
        let passed = now.since(self.at);
        if passed >= self.over {
            return self.level;
        }
        let share = passed.as_secs_f64() / self.over.as_secs_f64();
        share.mul_add(self.level - before, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_steps_and_ramps() {
        let profile = Profile::constant(10.0)
            .then(Instant::from_secs(100), 30.0, Duration::ZERO)
            .then(Instant::from_secs(200), 130.0, Duration::from_secs(10));
        let at = |secs| profile.at(Instant::from_secs(secs));
        assert_eq!(
            (at(0), at(99), at(100), at(200), at(500)),
            (10.0, 10.0, 30.0, 30.0, 130.0)
        );
        assert!((at(205) - 80.0).abs() < 1e-9);
        assert_eq!(
            profile.bound(Instant::from_secs(50)),
            (10.0, Instant::from_secs(100))
        );
        let (most, ends) = profile.bound(Instant::from_secs(201));
        assert!((most - 130.0).abs() < 1e-6);
        assert_eq!(ends, Instant::from_secs(210));
        assert_eq!(profile.bound(ends), (130.0, Instant::NEVER));
        assert_eq!(profile.most(), 130.0);
    }
}
