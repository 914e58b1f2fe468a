//! The one module that reads the clock and sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// Now.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Sleeps for a span.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that sleeps")]
pub async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Sleeps until a moment.
pub async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment).await;
}

/// The wall clock, in nanoseconds since 1970: what traces and rows carry.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the adapter that reads the clock"
)]
pub fn wall_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall clock in milliseconds, as the databases hold it.
#[must_use]
pub fn wall_millis() -> i64 {
    i64::try_from(wall_nanos() / 1_000_000).unwrap_or(i64::MAX)
}
