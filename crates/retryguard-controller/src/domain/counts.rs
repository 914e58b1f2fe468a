//! What a source counted for one target in one interval.

use std::time::Duration;

use retryguard_core::{
    Ratio,
    guard::{Sample, Signal},
};

use crate::domain::target::TargetName;

/// More calls than this in one interval cannot be true: a hundred million a second for an hour.
pub const MOST_CALLS: u64 = 360_000_000_000;

/// More retries per call than this cannot be true.
pub const MOST_RETRIES_PER_CALL: u64 = 1_000;

/// A longer delay than this cannot be true.
pub const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// How far a part may exceed its whole before the two are taken for counts of different things, as a share of the
/// whole and as a number. The counters of one page are read one after another while traffic flows.
pub const SKEW: (f64, f64) = (0.02, 1.0);

/// Counts over one interval. A number that the source does not have is absent; it is never zero instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// First attempts that ended.
    pub calls: u64,
    /// How many of them were rejected for load.
    pub rejected: Option<u64>,
    /// Retries that were sent.
    pub retries: Option<u64>,
    /// How many retries ended in a success.
    pub retries_succeeded: Option<u64>,
    /// Calls that were rejected in the end, after all of their attempts.
    pub failed: Option<u64>,
    /// The delay quantile of the interval.
    pub delay: Option<Duration>,
}

impl Counts {
    /// Whether a guard on `signal` can be fed with these counts.
    #[must_use]
    pub const fn has(&self, signal: Signal) -> bool {
        match signal {
            Signal::Rejections => self.rejected.is_some(),
            Signal::RetriesPerCall => self.retries.is_some(),
            Signal::Delay => self.delay.is_some(),
        }
    }

    /// The sample for a guard on `signal`; `None` where the signal is absent.
    ///
    /// The guard's sample has no absent counts. Those that are absent here are zero there, and a guard reads only
    /// what belongs to its signal.
    #[must_use]
    pub fn sample(&self, signal: Signal) -> Option<Sample> {
        self.has(signal).then(|| Sample {
            calls: self.calls,
            rejected: self.rejected.unwrap_or(0),
            retries: self.retries.unwrap_or(0),
            retries_succeeded: self.retries_succeeded.unwrap_or(0),
            delay: self.delay,
        })
    }

    /// The reading of `signal`, in its unit; `None` where it is absent or there were no calls.
    #[must_use]
    pub fn value(&self, signal: Signal) -> Option<f64> {
        let per_call = |count| (self.calls > 0).then(|| Ratio::of_counts(count, self.calls).as_f64());
        match signal {
            Signal::Rejections => self.rejected.and_then(per_call),
            Signal::RetriesPerCall => self.retries.and_then(per_call),
            Signal::Delay => self.delay.map(|delay| delay.as_secs_f64()),
        }
    }

    /// Whether these numbers can be true.
    #[must_use]
    pub fn plausible(&self) -> bool {
        self.calls <= MOST_CALLS
            && self.rejected.is_none_or(|rejected| rejected <= self.calls)
            && self
                .retries
                .is_none_or(|retries| retries <= self.calls.saturating_mul(MOST_RETRIES_PER_CALL))
            && self
                .retries_succeeded
                .is_none_or(|succeeded| self.retries.is_none_or(|retries| succeeded <= retries))
            && self.failed.is_none_or(|failed| failed <= self.calls)
            && self.delay.is_none_or(|delay| delay <= LONGEST_DELAY)
    }
}

/// What happened to one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which.
    pub target: TargetName,
    /// The counts.
    pub counts: Counts,
    /// How old the newest of these counts is.
    pub age: Duration,
}

/// `part`, at most `whole` where it exceeds it by no more than [`SKEW`]. A larger excess is left as it is, so that
/// [`Counts::plausible`] refuses the counts: a metric that counts something else must not look like a total overload.
#[must_use]
pub fn within(part: f64, whole: f64) -> f64 {
    let (share, number) = SKEW;
    if part > whole && part <= whole * (1.0 + share) + number {
        whole
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_count_is_not_zero() {
        let counts = Counts {
            calls: 100,
            rejected: Some(20),
            ..Counts::default()
        };
        assert_eq!(counts.sample(Signal::Rejections).unwrap().rejected, 20);
        assert_eq!(counts.sample(Signal::RetriesPerCall), None);
        assert_eq!(counts.sample(Signal::Delay), None);
        assert_eq!(counts.value(Signal::RetriesPerCall), None);
        assert_eq!(counts.value(Signal::Rejections), Some(0.2));
    }

    #[test]
    fn a_small_excess_is_skew_and_a_large_one_is_not() {
        assert_eq!(within(99.0, 100.0), 99.0);
        assert_eq!(within(103.0, 100.0), 100.0);
        assert_eq!(within(103.1, 100.0), 103.1);
        assert_eq!(within(1.0, 0.0), 0.0);
        assert_eq!(within(1.1, 0.0), 1.1);
    }
}
