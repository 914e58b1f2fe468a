//! Where the waits of a cohort end.

use std::time::Duration;

use retryguard_core::time::nanos;

use super::{Cohort, binomial, small, whole};
use crate::streams::Stream;

/// A wait that begins on a step's edge or inside a step.
#[derive(Debug)]
pub(super) enum Wait {
    /// Always this many steps: every client stays in its cohort.
    Steps(usize),
    /// Uniform between two ends: every client is inside afterwards.
    Spread { edge: Kernel, inside: Kernel },
}

impl Wait {
    /// Uniform between two ends; `None` where both are the same and no whole number of steps, or no time at all.
    pub(super) fn new(low: Duration, high: Duration, step: Duration) -> Option<Self> {
        let (low, high, step) = (nanos(low), nanos(high), nanos(step));
        if low == high {
            return (low > 0 && low.is_multiple_of(step)).then(|| Self::Steps(whole(low / step)));
        }
        #[expect(clippy::cast_precision_loss, reason = "a wait needs no more than a double")]
        let (low, high) = (low as f64 / step as f64, high as f64 / step as f64);
        Some(Self::Spread {
            edge: Kernel::uniform(low, high),
            inside: Kernel::smeared(low, high),
        })
    }

    /// Puts a cohort that begins to wait in `step` where its waits end. A client whose wait ends after the run is dropped.
    pub(super) fn place(&self, cohort: Cohort, step: usize, waiting: &mut [Cohort], stream: &mut Stream) {
        match self {
            Self::Steps(steps) => {
                if let Some(next) = waiting.get_mut(step + steps) {
                    next.edge += cohort.edge;
                    next.inside += cohort.inside;
                }
            }
            Self::Spread { edge, inside } => {
                edge.scatter(cohort.edge, step, waiting, stream);
                inside.scatter(cohort.inside, step, waiting, stream);
            }
        }
    }
}

/// The probabilities of the steps in which a wait ends, from the step it began in.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The first step with a probability.
    first: usize,
    /// The probability of each step, given that no earlier one was it.
    given_not_earlier: Vec<f64>,
    /// The probability of each step or an earlier one.
    up_to: Vec<f64>,
}

impl Kernel {
    /// A wait uniform between `low` and `high` steps, begun on an edge.
    pub(super) fn uniform(low: f64, high: f64) -> Self {
        Self::from_distribution(low, high, |x| ((x - low) / (high - low)).clamp(0.0, 1.0))
    }

    /// The same wait begun uniformly inside a step: the distribution averaged over the step.
    fn smeared(low: f64, high: f64) -> Self {
        let integral = |x: f64| {
            let inside = x.clamp(low, high) - low;
            inside * inside / 2.0 / (high - low) + (x - high).max(0.0)
        };
        Self::from_distribution(low, high + 1.0, |x| integral(x) - integral(x - 1.0))
    }

    /// What is left of a wait uniform between `low` and `high` at a random moment, from an edge: the distribution
    /// whose density is the probability that the wait is longer.
    pub(super) fn rest_of(low: f64, high: f64) -> Self {
        let mean = f64::midpoint(low, high);
        Self::from_distribution(0.0, high, |x| {
            if x <= low {
                return x.max(0.0) / mean;
            }
            let left = (high - x).max(0.0);
            1.0 - left * left / 2.0 / (high - low) / mean
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "waits are not negative, and longer ones than memory has steps are none"
    )]
    fn from_distribution(low: f64, high: f64, up_to: impl Fn(f64) -> f64) -> Self {
        let (first, last) = (low.floor() as usize, high.ceil() as usize);
        let at = |step: usize| up_to(f64::from(small(step)));
        let given_not_earlier = (first..last)
            .map(|step| {
                let left = 1.0 - at(step);
                if left > 0.0 {
                    (at(step + 1) - at(step)) / left
                } else {
                    1.0
                }
            })
            .collect();
        Self {
            first,
            given_not_earlier,
            up_to: (first..last).map(|step| at(step + 1)).collect(),
        }
    }

    /// Puts `count` clients that begin to wait in `step` inside the steps where their waits end.
    pub(super) fn scatter(&self, count: u64, step: usize, waiting: &mut [Cohort], stream: &mut Stream) {
        let first = step + self.first;
        // One by one is cheaper while they are few against the steps they may go to.
        if count < self.up_to.len() as u64 / 4 {
            for _ in 0..count {
                let draw = stream.uniform();
                let later = self.up_to.partition_point(|share| *share <= draw);
                if let Some(next) = waiting.get_mut(first + later) {
                    next.inside += 1;
                }
            }
            return;
        }
        let mut left = count;
        for (later, share) in self.given_not_earlier.iter().enumerate() {
            let Some(next) = waiting.get_mut(first + later) else {
                return;
            };
            let here = binomial::draw(left, *share, stream);
            next.inside += here;
            left -= here;
            if left == 0 {
                return;
            }
        }
        // The last share is one but for rounding.
        if let Some(last) = waiting.get_mut(first + self.given_not_earlier.len() - 1) {
            last.inside += left;
        }
    }
}
