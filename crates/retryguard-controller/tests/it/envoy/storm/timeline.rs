//! What happened in each second, and in stretches of them.

use std::fmt;

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
    pub(super) held_micros: u64,
}

impl Totals {
    fn since(self, other: Self) -> Self {
        Self {
            seconds: self.seconds - other.seconds,
            calls: self.calls - other.calls,
            succeeded: self.succeeded - other.succeeded,
            failed: self.failed - other.failed,
            attempts: self.attempts - other.attempts,
            served: self.served - other.served,
            held_micros: self.held_micros - other.held_micros,
        }
    }

    pub(super) fn attempts_per_call(self) -> f64 {
        self.attempts as f64 / self.calls as f64
    }

    /// Calls served a second, as the service counts them.
    pub(super) fn goodput(self) -> f64 {
        self.served as f64 / self.seconds as f64
    }

    pub(super) fn rejection(self) -> f64 {
        self.failed as f64 / (self.failed + self.succeeded) as f64
    }

    /// For how long a call was held open, in seconds.
    pub(super) fn held(self) -> f64 {
        self.held_micros as f64 / 1e6 / (self.failed + self.succeeded) as f64
    }
}

/// A storm, second by second.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline(pub(super) Vec<Second>);

impl Timeline {
    /// From the end of one second to the end of another.
    pub(super) fn during(&self, from: usize, to: usize) -> Totals {
        let at = |second: usize| match second.min(self.0.len()) {
            0 => Totals::default(),
            second => self.0[second - 1].totals,
        };
        at(to).since(at(from))
    }

    /// Whether the guard was ever in this state.
    pub(super) fn saw(&self, state: &str) -> bool {
        self.0.iter().any(|second| second.state == state)
    }

    /// The guard's state at the end.
    pub(super) fn last_state(&self) -> &str {
        self.0.last().map_or("", |second| &second.state)
    }

    /// The second at whose end the guard was first in this state.
    pub(super) fn first(&self, state: &str) -> Option<usize> {
        let place = self.0.iter().position(|second| second.state == state)?;
        Some(place + 1)
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "second,calls,attempts,served,succeeded,failed,guard")?;
        for second in 1..=self.0.len() {
            let step = self.during(second - 1, second);
            writeln!(
                f,
                "{second},{},{},{},{},{},{}",
                step.calls,
                step.attempts,
                step.served,
                step.succeeded,
                step.failed,
                self.0[second - 1].state
            )?;
        }
        Ok(())
    }
}
