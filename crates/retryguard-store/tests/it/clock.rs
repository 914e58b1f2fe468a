//! The one place of the tests that sleeps and draws.
#![expect(
    clippy::disallowed_methods,
    reason = "real processes and servers are waited for in real time; a paused clock is moved by sleeping"
)]

use std::time::Duration;

pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// A number drawn from `0..bound`.
pub(crate) fn below(bound: u64) -> u64 {
    fastrand::u64(..bound)
}

pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
