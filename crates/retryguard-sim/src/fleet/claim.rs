//! What a source says of a fleet, checked against a run.

use retryguard_core::Instant;

use super::Series;

/// A rate that a source gives for a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The beginning of the time.
    pub from: Instant,
    /// The end of the time.
    pub until: Instant,
    /// Attempts a second, relative to an even fleet without retries.
    pub rate: f64,
    /// How far off a run may be, in the unit of the rate.
    pub within: f64,
}

/// What a run says to a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The claim.
    pub claim: Claim,
    /// The rate that was found.
    pub found: f64,
}

impl Claim {
    /// Compares the claim with a run.
    #[must_use]
    pub fn check(&self, series: &Series) -> Verdict {
        Verdict {
            claim: self.clone(),
            found: series.relative_rate(self.from, self.until),
        }
    }
}

impl Verdict {
    /// Whether the run bears the claim out.
    #[must_use]
    pub fn holds(&self) -> bool {
        // A rate is a quotient: what is exact in clients is so to a few last digits here.
        (self.found - self.claim.rate).abs() <= self.claim.within + 1e-12 * self.claim.rate
    }
}
