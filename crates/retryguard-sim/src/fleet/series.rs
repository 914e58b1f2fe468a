//! What arrives at the target, bin by bin.

use std::time::Duration;

use retryguard_core::{Instant, time::nanos};

/// What arrived during one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bin {
    /// Regular requests, the first attempts of calls.
    pub first: u64,
    /// Retries.
    pub retries: u64,
    /// Attempts of either kind that failed.
    pub failed: u64,
}

impl Bin {
    /// Attempts of both kinds.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.first + self.retries
    }

    fn add(&mut self, other: &Self) {
        self.first += other.first;
        self.retries += other.retries;
        self.failed += other.failed;
    }
}

/// The whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    step: u64,
    even_rate: f64,
    bins: Vec<Bin>,
}

impl Series {
    /// Empty bins for a fleet.
    ///
    /// # Panics
    /// If the step is zero.
    #[must_use]
    pub fn new(fleet: &super::Fleet) -> Self {
        let step = nanos(fleet.step);
        let bins = usize::try_from(nanos(fleet.duration).div_ceil(step)).unwrap_or(usize::MAX);
        Self {
            step,
            even_rate: fleet.even_rate(),
            bins: vec![Bin::default(); bins],
        }
    }

    /// Counts one attempt.
    pub(super) fn count(&mut self, at: Instant, retry: bool, failed: bool) {
        // The engines stop at the end of the run, so the moment has a bin.
        let bin = &mut self.bins[usize::try_from(at.as_nanos() / self.step).unwrap_or(usize::MAX)];
        bin.first += u64::from(!retry);
        bin.retries += u64::from(retry);
        bin.failed += u64::from(failed);
    }

    pub(super) fn bin_mut(&mut self, index: usize) -> &mut Bin {
        &mut self.bins[index]
    }

    /// The bins in order.
    #[must_use]
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The width of a bin.
    #[must_use]
    pub const fn step(&self) -> Duration {
        Duration::from_nanos(self.step)
    }

    /// Everything that arrived.
    #[must_use]
    pub fn total(&self) -> Bin {
        self.sum(0, self.bins.len())
    }

    /// What arrived in the bins that begin in `[from, until)`.
    #[must_use]
    pub fn between(&self, from: Instant, until: Instant) -> Bin {
        let index = |at: Instant| {
            let bin = usize::try_from(at.as_nanos().div_ceil(self.step)).unwrap_or(usize::MAX);
            bin.min(self.bins.len())
        };
        let (from, until) = (index(from), index(until));
        self.sum(from.min(until), until)
    }

    /// The mean rate of attempts in `[from, until)`, relative to an even fleet without retries.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than a double")]
    pub fn relative_rate(&self, from: Instant, until: Instant) -> f64 {
        self.between(from, until).attempts() as f64 / (self.even_rate * from.until(until).as_secs_f64())
    }

    /// The relative rate of every bin.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than a double")]
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        let even = self.even_rate * self.step().as_secs_f64();
        self.bins.iter().map(move |bin| bin.attempts() as f64 / even)
    }

    /// The same run in bins that are `factor` times as wide, for a plot or a test. An incomplete last bin is left
    /// out.
    ///
    /// # Panics
    /// If the factor is zero.
    #[must_use]
    pub fn coarser(&self, factor: usize) -> Self {
        Self {
            step: self.step * factor as u64,
            even_rate: self.even_rate,
            bins: self.bins.chunks_exact(factor).map(sum).collect(),
        }
    }

    fn sum(&self, from: usize, until: usize) -> Bin {
        sum(&self.bins[from..until])
    }
}

fn sum(bins: &[Bin]) -> Bin {
    bins.iter().fold(Bin::default(), |mut all, bin| {
        all.add(bin);
        all
    })
}
