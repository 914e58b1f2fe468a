//! The one module that reads the clock, sleeps and draws.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use retryguard_core::Chance;

/// Now, in tokio's time.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Microseconds since the Unix epoch, for a database whose processes all run on one machine. One that is a
/// server of its own is asked for its own clock instead: the clocks of two machines differ.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that sleeps")]
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Sleeps until a moment.
pub(crate) async fn sleep_until(moment: tokio::time::Instant) {
    tokio::time::sleep_until(moment).await;
}

/// A moment of the past `micros` microseconds after the Unix epoch, as a database gives it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn from_unix_micros(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The wall clock, for what people read.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// 128 bits that no other process draws: the keys of the standard library's hashers come from the operating
/// system, where the fast generator's seed has half as many bits.
pub(crate) fn random_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = || RandomState::new().hash_one(unix_micros());
    format!("{:016x}{:016x}", bits(), bits())
}

/// Draws from the thread's own generator, which the operating system seeds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Random;

impl Chance for Random {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that draws")]
    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { fastrand::u64(..bound) }
    }
}
