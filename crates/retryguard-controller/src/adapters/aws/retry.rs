//! Asks again, with the product's own back-off.

use std::time::Duration;

use retryguard_core::backoff::Backoff;

use crate::adapters::aws::RequestError;
use crate::clock::{Random, sleep};

/// How often one request is tried before the failure is returned to the loop, which tries again in the next round.
pub(crate) const ATTEMPTS: u32 = 6;

/// Amazon's control planes allow a few changes a second for a whole account, and a client that is instructed to slow down
/// shares that with others: the waits grow to seconds, and are jittered.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Tries until it works, the trouble is final, or [`ATTEMPTS`] are used up. Each try must read anew what it
/// writes: a conflict means that what was read is old.
pub(crate) async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, RequestError>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let (initial, cap) = BACKOFF;
    let backoff = Backoff {
        initial,
        cap,
        ..Backoff::default()
    };
    let mut previous = Duration::ZERO;
    let mut number = 1;
    loop {
        let trouble = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(trouble @ (RequestError::Stale(_) | RequestError::Later(_))) => trouble,
            // Asking a silent server again would use up the term: the next round does.
            Err(trouble) => return Err(trouble),
        };
        if number >= ATTEMPTS {
            return Err(trouble);
        }
        let Some(delay) = backoff.delay(number, previous, &mut Random) else {
            return Err(trouble);
        };
        sleep(delay).await;
        (previous, number) = (delay, number + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    async fn count(trouble: RequestError, works_after: u32) -> (u32, bool) {
        let tries = AtomicU32::new(0);
        let answer = with_retries(|| async {
            if tries.fetch_add(1, Ordering::Relaxed) < works_after {
                Err(trouble.clone())
            } else {
                Ok(())
            }
        })
        .await;
        (tries.into_inner(), answer.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_and_stale_reads_are_met_again_and_not_for_ever() {
        assert_eq!(count(RequestError::Later(String::new()), 3).await, (4, true));
        assert_eq!(
            count(RequestError::Stale(String::new()), ATTEMPTS - 1).await,
            (ATTEMPTS, true)
        );
        assert_eq!(
            count(RequestError::Later(String::new()), ATTEMPTS).await,
            (ATTEMPTS, false)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_try_cannot_mend_is_told_at_once() {
        for trouble in [
            RequestError::Refused,
            RequestError::Silent,
            RequestError::Taken,
            RequestError::Missing,
        ] {
            assert_eq!(count(trouble(String::new()), 9).await, (1, false));
        }
    }
}
