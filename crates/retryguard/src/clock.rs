//! The one module that reads the clock, sleeps and draws: the adapter between tokio and the machines.

use std::time::Duration;

use retryguard_core::{Chance, Instant};

/// Turns tokio's time into the machines' time. Each shared state has an origin of its own, so that tests
/// with a paused clock do not see each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    pub(crate) fn start() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
        }
    }

    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    pub(crate) fn now(&self) -> Instant {
        self.instant(tokio::time::Instant::now())
    }

    /// A moment of tokio's as the machines see it.
    #[inline]
    pub(crate) fn instant(&self, at: tokio::time::Instant) -> Instant {
        Instant::ZERO.after(at.saturating_duration_since(self.origin))
    }

    /// What is added to the machines' time to get nanoseconds since the Unix epoch, wrapping around. `None` where the
    /// wall clock stands before the epoch, as it does on machines that have not been set yet.
    pub(crate) fn unix_offset(&self) -> Option<u64> {
        match unix_time() {
            Instant::ZERO => None,
            unix => Some(unix.as_nanos().wrapping_sub(self.now().as_nanos())),
        }
    }

    /// A moment of the machines' as tokio sees it; far in the future where it does not fit.
    pub(crate) fn moment(&self, at: Instant) -> tokio::time::Instant {
        let span = Duration::from_nanos(at.as_nanos()).min(FAR);
        self.origin + span
    }
}

/// Thirty years, the far future of tokio's own timers.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Now, for the parts that keep tokio's time.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// When a span from outside will have passed, which may be any; far in the future where it does not fit.
pub(crate) fn after(span: Duration) -> tokio::time::Instant {
    now() + span.min(FAR)
}

/// The wall clock, for the one header that speaks of it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// The wall clock in the machines' time: the slots of a schedule are cut from the Unix epoch.
#[expect(
    clippy::cast_possible_truncation,
    reason = "584 years of nanoseconds fit in 64 bits"
)]
pub(crate) fn unix_time() -> Instant {
    let since = wall_clock()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Instant::from_nanos(since.as_nanos() as u64)
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that sleeps")]
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Draws from the thread's own generator, which the operating system seeds: two clients, two clones and two
/// threads never draw the same jitter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Random;

impl Chance for Random {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that draws")]
    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { fastrand::u64(..bound) }
    }
}

/// 128 random bits, for an idempotency key.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that draws")]
pub(crate) fn random_bits() -> u128 {
    u128::from(fastrand::u64(..)) << 64 | u128::from(fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `retryguard-deadline-ms: 18446744073709551615` wrapped around in 64 bits of nanoseconds and had passed
    /// before the call began; so did gRPC's longest timeout, 99999999 hours.
    #[test]
    fn a_span_that_does_not_fit_is_far_and_not_past() {
        let clock = Clock::start();
        let hours = Duration::from_secs(99_999_999 * 3600);
        for span in [FAR, hours, Duration::from_millis(u64::MAX), Duration::MAX] {
            let left = clock.now().until(clock.instant(after(span)));
            assert!(left > FAR / 2, "{span:?}: {left:?}");
        }
        let beyond = clock.origin + 30 * FAR;
        assert_eq!(clock.instant(beyond), Instant::NEVER);
    }
}
