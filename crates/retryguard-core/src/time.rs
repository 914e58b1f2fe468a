//! Time as the machines see it: nanoseconds since an origin that the driver chose.

use std::time::Duration;

/// A point in time, in nanoseconds since the driver's origin.
///
/// Our own type and not `std::time::Instant`, because that one can be made only by reading a clock. 64 bits
/// of nanoseconds last 584 years; all arithmetic saturates, so a configured "for ever" cannot wrap around
/// into "now".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant that lies `nanos` nanoseconds after the origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant that lies `millis` milliseconds after the origin.
    #[inline]
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The instant that lies `secs` seconds after the origin.
    #[inline]
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `span`; [`Instant::NEVER`] where that would not fit.
    #[inline]
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// The time since `earlier`; zero if `earlier` is in fact later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The nanoseconds since `earlier`; zero if `earlier` is in fact later.
    #[inline]
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time until `later`; zero if it has passed.
    #[inline]
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

/// A duration as nanoseconds; what does not fit in 64 bits becomes the largest value.
#[inline]
#[must_use]
pub const fn nanos(span: Duration) -> u64 {
    span.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(span.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_ever_does_not_wrap_around() {
        assert_eq!(Instant::from_secs(1).after(Duration::MAX), Instant::NEVER);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_time_that_runs_backwards_is_no_time() {
        assert_eq!(Instant::from_secs(1).since(Instant::from_secs(2)), Duration::ZERO);
    }
}
