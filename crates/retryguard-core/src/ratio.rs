//! Shares, exact to nine decimals.

use std::time::Duration;

use crate::time::nanos;

/// A non-negative share such as 20 %, held as parts per billion.
///
/// An integer and not a float, because a budget compares `retries ≤ ratio × first attempts` and must give
/// the answer that a person gets on paper: 0.6 of 5 is 3, for every value that can be written with nine
/// decimals. Values above one are allowed where they make sense (a throttle's K is 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ratio(u64);

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All.
    pub const ONE: Self = Self(Self::PARTS);
    /// How many parts make one.
    pub const PARTS: u64 = 1_000_000_000;
    /// The largest ratio that can be made from a float; beyond it no use of a ratio makes sense.
    pub const LARGEST: f64 = 1_000_000.0;

    /// `parts` billionths.
    #[inline]
    #[must_use]
    pub const fn from_parts(parts: u64) -> Self {
        Self(parts)
    }

    /// `percent` hundredths.
    #[inline]
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self(percent as u64 * (Self::PARTS / 100))
    }

    /// The nearest ratio to `value`; `None` where it is negative, not a number or above [`Ratio::LARGEST`].
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked"
    )]
    pub fn from_f64(value: f64) -> Option<Self> {
        (0.0..=Self::LARGEST)
            .contains(&value)
            .then(|| Self((value * Self::PARTS as f64).round() as u64))
    }

    /// `part` of `whole`, rounded down; zero of zero is zero, something of zero is one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 64 bits first")]
    pub const fn of_counts(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return if part == 0 { Self::ZERO } else { Self::ONE };
        }
        let parts = part as u128 * Self::PARTS as u128 / whole as u128;
        Self(if parts > u64::MAX as u128 {
            u64::MAX
        } else {
            parts as u64
        })
    }

    /// The ratio in billionths.
    #[inline]
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// The ratio as a float, for reports.
    #[inline]
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::PARTS as f64
    }

    /// Whether `part` is at most this share of `whole`, exactly.
    #[inline]
    #[must_use]
    pub const fn covers(self, part: u64, whole: u64) -> bool {
        // The common answer needs no arithmetic of 128 bits.
        if self.0 >= Self::PARTS && part <= whole {
            return true;
        }
        part as u128 * Self::PARTS as u128 <= self.0 as u128 * whole as u128
    }

    /// This share of a duration: the product is taken in 128-bit nanoseconds, so that nothing is lost to
    /// rounding before the division.
    #[must_use]
    pub const fn of(self, span: Duration) -> Duration {
        Duration::from_nanos(self.of_nanos(nanos(span)))
    }

    /// This share of a number of nanoseconds.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 64 bits first")]
    pub const fn of_nanos(self, whole: u64) -> u64 {
        let product = whole as u128 * self.0 as u128 / Self::PARTS as u128;
        if product > u64::MAX as u128 {
            u64::MAX
        } else {
            product as u64
        }
    }

    /// One minus this share; zero if it is above one.
    #[inline]
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(Self::PARTS.saturating_sub(self.0))
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.as_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget whose ratio was truncated to an integer made 0.6 and 0.9 both mean all or nothing.
    #[test]
    fn every_written_share_is_exact() {
        for percent in 0..=100 {
            let ratio = Ratio::from_f64(f64::from(percent) / 100.0).unwrap();
            assert_eq!(ratio, Ratio::percent(percent));
            assert!(ratio.covers(u64::from(percent), 100));
            assert!(!ratio.covers(u64::from(percent) + 1, 100));
        }
    }

    #[test]
    fn a_float_that_is_no_share_is_none() {
        for value in [-0.1, f64::NAN, f64::INFINITY, 1.0e7] {
            assert_eq!(Ratio::from_f64(value), None);
        }
    }

    /// Jitter that truncates seconds and nanoseconds apart gives a one-second base no jitter at all.
    #[test]
    fn a_share_of_one_second_keeps_its_nanoseconds() {
        assert_eq!(
            Ratio::from_parts(1).of(Duration::from_secs(1)),
            Duration::from_nanos(1)
        );
        assert_eq!(
            Ratio::percent(50).of(Duration::from_secs(1)),
            Duration::from_millis(500)
        );
    }
}
