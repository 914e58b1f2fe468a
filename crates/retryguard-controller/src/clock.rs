//! The one module that reads the clock, sleeps and draws: the adapter between tokio and the machines.

use std::time::Duration;

use retryguard_core::{Chance, Instant};

/// Turns tokio's time into the machines' time. Each loop has an origin of its own, so that tests with a paused
/// clock do not see each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    pub fn start() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
        }
    }

    /// Now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the adapter that reads the clock"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "584 years of nanoseconds fit in 64 bits"
    )]
    pub fn now(&self) -> Instant {
        let since = tokio::time::Instant::now().saturating_duration_since(self.origin);
        Instant::from_nanos(since.as_nanos() as u64)
    }
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that sleeps")]
pub async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Seconds since the Unix epoch, for what people read.
#[must_use]
pub fn unix_seconds() -> u64 {
    unix_time().as_secs()
}

/// The time since the Unix epoch, for what is written where others read it. Nothing may be decided by it.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub fn unix_time() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Draws from the thread's own generator, which the operating system seeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Chance for Random {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that draws")]
    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { fastrand::u64(..bound) }
    }
}
