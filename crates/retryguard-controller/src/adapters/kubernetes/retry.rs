//! Asks again, with the product's own back-off.

use std::time::Duration;

use retryguard_core::backoff::Backoff;

use crate::adapters::kubernetes::RequestError;
use crate::clock::{Random, sleep};

/// How often one request is tried before the failure is returned to the loop, which tries again in the next round.
pub(crate) const ATTEMPTS: u32 = 6;

/// The longest that a server's request to be asked later is waited for within one change.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Tries until it works, the trouble is final, or [`ATTEMPTS`] are used up. Each try must read anew what it
/// writes: a conflict means that what was read is old.
pub(crate) async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, RequestError>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let backoff = Backoff {
        initial: Duration::from_millis(50),
        cap: Duration::from_secs(2),
        ..Backoff::default()
    };
    let mut previous = Duration::ZERO;
    let mut number = 1;
    loop {
        let trouble = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(trouble) => trouble,
        };
        let least = match &trouble {
            RequestError::Stale(_) => Duration::ZERO,
            RequestError::Later(wait, _) if *wait <= LONGEST_WAIT => *wait,
            // Asking a silent server again would use up the term: the next round does.
            RequestError::Later(..)
            | RequestError::Silent(_)
            | RequestError::Missing(_)
            | RequestError::Refused(_) => {
                return Err(trouble);
            }
        };
        if number >= ATTEMPTS {
            return Err(trouble);
        }
        let Some(delay) = backoff.delay(number, previous, &mut Random) else {
            return Err(trouble);
        };
        sleep(delay.max(least)).await;
        (previous, number) = (delay, number + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    async fn count(trouble: fn() -> RequestError, works_after: u32) -> (u32, bool) {
        let tries = AtomicU32::new(0);
        let answer = with_retries(|| async {
            if tries.fetch_add(1, Ordering::Relaxed) < works_after {
                Err(trouble())
            } else {
                Ok(())
            }
        })
        .await;
        (tries.into_inner(), answer.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_and_busy_servers_are_met_again_and_not_for_ever() {
        let stale = || RequestError::Stale(String::new());
        let busy = || RequestError::Later(Duration::from_secs(1), String::new());
        assert_eq!(count(stale, 3).await, (4, true));
        assert_eq!(count(busy, ATTEMPTS - 1).await, (ATTEMPTS, true));
        assert_eq!(count(stale, ATTEMPTS).await, (ATTEMPTS, false));
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_try_cannot_mend_is_told_at_once() {
        assert_eq!(
            count(|| RequestError::Refused(String::new()), 9).await,
            (1, false)
        );
        assert_eq!(count(|| RequestError::Silent(String::new()), 9).await, (1, false));
        let long = || RequestError::Later(LONGEST_WAIT + Duration::from_secs(1), String::new());
        assert_eq!(count(long, 9).await, (1, false));
    }
}
