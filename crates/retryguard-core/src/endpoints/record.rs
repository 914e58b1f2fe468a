//! What an endpoint's recent attempts came to, and those of its peers.

use super::{ERRORS, LEAST_SHARE, Settings};

/// A row of failures that is at least this likely at the peers' failure share is taken for chance.
const LIKELY: f64 = 1e-5;

/// The recent attempts of one endpoint, with exponential forgetting: the mean of the first [`Record::MEMORY`] attempts, and
/// then a mean in which each attempt weighs a little less than the next.
///
/// By attempts and not by time: an endpoint that is rarely used needs as many attempts to be known as any other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Record {
    share: f64,
    seen: u32,
    row: u32,
}

impl Record {
    /// How many attempts are remembered, on average.
    pub(super) const MEMORY: u32 = 32;

    pub(super) fn add(&mut self, failed: bool) {
        self.seen = self.seen.saturating_add(1);
        let weight = f64::from(self.weight());
        self.share += (f64::from(u8::from(failed)) - self.share) / weight;
        self.row = if failed { self.row.saturating_add(1) } else { 0 };
    }

    /// The share that failed.
    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// The attempts that were ever seen.
    pub(super) const fn seen(&self) -> u32 {
        self.seen
    }

    fn weight(&self) -> u32 {
        self.seen.min(Self::MEMORY)
    }

    /// Whether this endpoint fails all the time while its peers succeed, beyond chance.
    pub(super) fn is_row_against(&self, peers: &Peers, settings: &Settings) -> bool {
        self.row >= settings.in_a_row
            && settings.factor.as_f64() * peers.share() <= 1.0
            && peers.makes_unlikely(self.row)
    }

    /// Whether this endpoint fails far more often than its peers, beyond chance.
    pub(super) fn is_far_above(&self, peers: &Peers, settings: &Settings) -> bool {
        let theirs = peers.share();
        let error = (theirs * (1.0 - theirs) / f64::from(self.weight().max(1))).sqrt();
        self.seen >= settings.attempts
            && self.share >= LEAST_SHARE
            && self.share >= settings.factor.as_f64() * theirs
            && self.share - theirs > ERRORS * error
    }
}

/// The recent attempts of the other endpoints together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peers {
    failed: f64,
    attempts: f64,
}

impl Peers {
    pub(super) fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        records.fold(Self::default(), |sum, record| {
            let weight = f64::from(record.weight());
            Self {
                failed: sum.failed + record.share * weight,
                attempts: sum.attempts + weight,
            }
        })
    }

    /// The share that fails, by Laplace's rule of succession: without any attempt a half, so that nothing is compared with
    /// peers of which nothing is known.
    pub(super) fn share(&self) -> f64 {
        (self.failed + 1.0) / (self.attempts + 2.0)
    }

    /// Whether so many failures in a row are less likely than [`LIKELY`] at this share.
    fn makes_unlikely(&self, row: u32) -> bool {
        let mut probability = 1.0;
        // After 1024 factors the answer no longer changes: the share is then almost one.
        for _ in 0..row.min(1024) {
            probability *= self.share();
            if probability < LIKELY {
                return true;
            }
        }
        false
    }
}
