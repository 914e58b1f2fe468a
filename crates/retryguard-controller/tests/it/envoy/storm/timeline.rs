//! What happened in each second, and in stretches of them.

use std::fmt;
use std::sync::atomic::Ordering;

use super::load::Seen;

/// Totals since the beginning, at the end of a second.
#[derive(Debug, Clone, Default)]
pub(super) struct Second {
    pub(super) totals: Totals,
    pub(super) state: String,
}

/// Counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) seconds: u64,
    pub(super) calls: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) attempts: u64,
    pub(super) served: u64,
}

impl Totals {
    pub(super) fn since(self, other: Self) -> Self {
        Self {
            seconds: self.seconds - other.seconds,
            calls: self.calls - other.calls,
            succeeded: self.succeeded - other.succeeded,
            failed: self.failed - other.failed,
            attempts: self.attempts - other.attempts,
            served: self.served - other.served,
        }
    }

    pub(super) fn attempts_per_call(self) -> f64 {
        self.attempts as f64 / self.calls as f64
    }

    pub(super) fn retries_per_call(self) -> f64 {
        self.attempts_per_call() - 1.0
    }

    /// Calls served a second, as the service counts them.
    pub(super) fn goodput(self) -> f64 {
        self.served as f64 / self.seconds as f64
    }
}

/// What became of the calls that were made in one phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    succeeded: u64,
    failed: u64,
    held_micros: u64,
}

impl Fate {
    pub(super) fn of(seen: &Seen) -> Self {
        Self {
            succeeded: seen.succeeded.load(Ordering::Relaxed),
            failed: seen.failed.load(Ordering::Relaxed),
            held_micros: seen.held_micros.load(Ordering::Relaxed),
        }
    }

    /// The share that succeeded.
    pub(super) fn success(self) -> f64 {
        1.0 - self.rejection()
    }

    /// The share that failed for good.
    pub(super) fn rejection(self) -> f64 {
        self.failed as f64 / (self.failed + self.succeeded) as f64
    }

    /// For how long they were held open in all, in seconds.
    pub(super) fn held(self) -> f64 {
        self.held_micros as f64 / 1e6
    }

    /// For how long each was held open, in seconds.
    pub(super) fn mean(self) -> f64 {
        self.held() / (self.failed + self.succeeded) as f64
    }
}

/// A storm, second by second.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    pub(super) seconds: Vec<Second>,
    /// One for each phase.
    pub(super) fates: Vec<Fate>,
    /// When the guard's state changed, in seconds since the beginning, and to what.
    pub(super) changes: Vec<(f64, String)>,
}

impl Timeline {
    /// The guard's state at this moment.
    pub(super) fn note(&mut self, seconds: f64, state: &str) {
        match self.changes.last() {
            None => self.changes.push((0.0, state.to_owned())),
            Some((_, last)) if last != state => self.changes.push((seconds, state.to_owned())),
            Some(_) => {}
        }
    }

    /// The first moment from `from` on, and before `to`, at which the guard was in this state.
    pub(super) fn reached(&self, state: &str, from: f64, to: f64) -> Option<f64> {
        let ends = self.changes.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([f64::INFINITY]);
        self.changes
            .iter()
            .zip(ends)
            .find(|((at, held), end)| held == state && *end > from && *at < to)
            .map(|((at, _), _)| at.max(from))
    }

    /// For how much of the time from `from` to `to` the guard was in this state.
    pub(super) fn share(&self, state: &str, from: f64, to: f64) -> f64 {
        let ends = self.changes.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([f64::INFINITY]);
        let held = self
            .changes
            .iter()
            .zip(ends)
            .filter(|((_, held), _)| held == state);
        let inside = held.map(|((at, _), end)| (end.min(to) - at.max(from)).max(0.0));
        inside.sum::<f64>() / (to - from)
    }

    /// From the end of one second to the end of another.
    pub(super) fn during(&self, from: usize, to: usize) -> Totals {
        let at = |second: usize| match second.min(self.seconds.len()) {
            0 => Totals::default(),
            second => self.seconds[second - 1].totals,
        };
        at(to).since(at(from))
    }

    /// Whether the guard was ever in this state.
    pub(super) fn saw(&self, state: &str) -> bool {
        self.seconds.iter().any(|second| second.state == state)
    }

    /// The guard's state at the end.
    pub(super) fn last_state(&self) -> &str {
        self.seconds.last().map_or("", |second| &second.state)
    }

    /// The second at whose end the guard was first in this state.
    pub(super) fn first(&self, state: &str) -> Option<usize> {
        let place = self.seconds.iter().position(|second| second.state == state)?;
        Some(place + 1)
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "second,calls,attempts,served,succeeded,failed,guard")?;
        for second in 1..=self.seconds.len() {
            let step = self.during(second - 1, second);
            writeln!(
                f,
                "{second},{},{},{},{},{},{}",
                step.calls,
                step.attempts,
                step.served,
                step.succeeded,
                step.failed,
                self.seconds[second - 1].state
            )?;
        }
        Ok(())
    }
}
