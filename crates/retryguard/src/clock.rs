//! The one module that reads the clock, sleeps and draws: the adapter between tokio and the machines.

use std::{sync::LazyLock, time::Duration};

use retryguard_core::{Chance, Instant};

/// Turns tokio's time into the machines' time. Each shared state has an origin of its own, so that tests
/// with a paused clock do not see each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: tokio::time::Instant,
    /// The same moment by [`raw::nanos`].
    raw_origin: u64,
}

/// Whether tokio's clock can be paused in this build: tokio then has `pause`, which it has with its feature `test-util`
/// alone. A feature of ours could not tell, because it is tokio's that a program's tests switch on.
const PAUSABLE: bool = {
    // The glob of a block comes before the names around the block: this is tokio's `pause` where there is one, and the
    // function below otherwise.
    #[allow(
        unused_imports,
        clippy::wildcard_imports,
        reason = "nothing is imported without the feature"
    )]
    use tokio::time::*;
    is_pausable(pause)
};

const fn is_pausable<T: Pause>(_: fn() -> T) -> bool {
    T::EXISTS
}

/// What a function `pause` returns, which tells whose it is.
trait Pause {
    const EXISTS: bool;
}

struct Absent;

impl Pause for () {
    const EXISTS: bool = true;
}

impl Pause for Absent {
    const EXISTS: bool = false;
}

#[allow(dead_code, reason = "hidden by tokio's where that exists")]
const fn pause() -> Absent {
    Absent
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod raw {
    use nix::time::{ClockId, clock_gettime};

    pub(super) const EXISTS: bool = true;

    /// The monotonic clock, which is tokio's too. Half of the instructions that `Instant` and `Duration` take.
    #[inline]
    pub(super) fn nanos() -> u64 {
        // Every Linux has this clock.
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else {
            return 0;
        };
        let seconds = now.tv_sec().cast_unsigned();
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(now.tv_nsec().cast_unsigned())
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod raw {
    pub(super) const EXISTS: bool = false;

    pub(super) const fn nanos() -> u64 {
        0
    }
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    pub(crate) fn start() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
            raw_origin: raw::nanos(),
        }
    }

    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    pub(crate) fn now(&self) -> Instant {
        if raw::EXISTS && !PAUSABLE {
            return Instant::from_nanos(raw::nanos().saturating_sub(self.raw_origin));
        }
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
    #[inline]
    pub(crate) fn moment(&self, at: Instant) -> tokio::time::Instant {
        let span = Duration::from_nanos(at.as_nanos()).min(FAR);
        self.origin + span
    }
}

/// A moment of tokio's in one word: nanoseconds since a moment of this process, which may be later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(i64);

/// What [`Moment`]s count from. Not tokio's `now`: a paused clock may be far ahead.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
static BASE: LazyLock<tokio::time::Instant> =
    LazyLock::new(|| tokio::time::Instant::from_std(std::time::Instant::now()));

impl Moment {
    pub(crate) const NEVER: Self = Self(i64::MAX);

    /// Nearly three centuries off where it does not fit.
    pub(crate) fn of(at: tokio::time::Instant) -> Self {
        let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        match at.checked_duration_since(*BASE) {
            Some(after) => Self(nanos(after)),
            None => Self(-nanos(BASE.saturating_duration_since(at))),
        }
    }

    /// `None` for [`Moment::NEVER`].
    pub(crate) fn instant(self) -> Option<tokio::time::Instant> {
        if self == Self::NEVER {
            return None;
        }
        let span = Duration::from_nanos(self.0.unsigned_abs());
        if self.0 < 0 {
            BASE.checked_sub(span).or(Some(*BASE))
        } else {
            Some(*BASE + span.min(FAR))
        }
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
    #[inline]
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

    /// This build has `test-util`, so that the paused clock must be read.
    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_noticed() {
        const { assert!(PAUSABLE) };
        let clock = Clock::start();
        let before = clock.now();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(3600));
    }

    #[test]
    fn both_clocks_run_alike() {
        let clock = Clock::start();
        let raw = || raw::nanos().saturating_sub(clock.raw_origin);
        if raw::EXISTS {
            let (before, now, after) = (raw(), clock.now().as_nanos(), raw());
            // The two origins were read one after the other.
            let apart = u64::try_from(Duration::from_secs(60).as_nanos()).unwrap();
            assert!(
                before <= now + apart && now <= after + apart,
                "{before} {now} {after}"
            );
        }
    }

    #[test]
    fn a_moment_is_the_same_before_and_after_what_it_counts_from() {
        for at in [
            *BASE,
            *BASE + Duration::from_millis(7),
            *BASE - Duration::from_millis(7),
        ] {
            assert_eq!(Moment::of(at).instant(), Some(at));
        }
        assert_eq!(Moment::NEVER.instant(), None);
    }

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
