//! The one module that reads the clock, sleeps and draws: the adapter between tokio and the machines.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

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

impl Clock {
    /// What comes of `work`, or nothing where it is not done at `end`.
    ///
    /// Unlike tokio's `timeout`, time is looked at before every step. A task that was stopped for a while (a process that was
    /// suspended, a machine that had no time for it) may find both its answer and its end when it goes on, and `timeout`
    /// would let it take the next step, which may be a write.
    pub(crate) async fn until<T>(&self, end: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut over = pin!(sleep(self.now().until(end)));
        poll_fn(|context| {
            if self.now() >= end {
                return Poll::Ready(None);
            }
            match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => over.as_mut().poll(context).map(|()| None),
            }
        })
        .await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_is_done_in_time_is_done() {
        let clock = Clock::start();
        let end = clock.now().after(Duration::from_secs(5));
        let work = async {
            sleep(Duration::from_secs(4)).await;
            7
        };
        assert_eq!(clock.until(end, work).await, Some(7));
        assert_eq!(clock.until(end, sleep(Duration::from_secs(4))).await, None);
        assert_eq!(clock.until(end, async { 7 }).await, None, "its time is over");
    }
}
