//! What a caller gets when there is no response.

use std::time::Duration;

use retryguard_core::Refusal;

/// Why a call has no response. Says which part refused and why, and how long to stay away.
///
/// A failed *response* (a 503, say) is not an error here: it is returned as the response that it is, after
/// whatever retries were allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// Nothing was sent.
    #[error("not sent: {refusal} ({})", refusal.next_step())]
    Refused {
        /// The part that refused.
        refusal: Refusal,
        /// How long to stay away, where somebody said so.
        retry_after: Option<Duration>,
    },
    /// The last attempt ran out of time.
    #[error("no answer in time at attempt {attempts}; not retried: {refusal} ({})", refusal.next_step())]
    TimedOut {
        /// How many attempts were made.
        attempts: u8,
        /// Why there was no other.
        refusal: Refusal,
        /// How long to stay away, where somebody said so.
        retry_after: Option<Duration>,
    },
    /// The last attempt failed without a response.
    #[error("failed at attempt {attempts}; not retried: {refusal} ({})", refusal.next_step())]
    Failed {
        /// What the service below said.
        #[source]
        error: E,
        /// How many attempts were made.
        attempts: u8,
        /// Why there was no other.
        refusal: Refusal,
        /// How long to stay away, where somebody said so.
        retry_after: Option<Duration>,
    },
    /// The service below said that it will never be ready again.
    #[error("the service below is not ready")]
    NotReady(#[source] E),
}

impl<E> Error<E> {
    /// Why there was no (other) attempt.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } | Self::TimedOut { refusal, .. } | Self::Failed { refusal, .. } => {
                Some(*refusal)
            }
            Self::NotReady(_) => None,
        }
    }

    /// How long to stay away, where the target, the breaker or the gate said so. Already spread out: callers
    /// may use it as it is.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. }
            | Self::TimedOut { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            Self::NotReady(_) => None,
        }
    }

    /// How many attempts were made.
    pub const fn attempts(&self) -> u8 {
        match self {
            Self::Refused { .. } | Self::NotReady(_) => 0,
            Self::TimedOut { attempts, .. } | Self::Failed { attempts, .. } => *attempts,
        }
    }

    /// The error of the service below.
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::Failed { error, .. } | Self::NotReady(error) => Some(error),
            Self::Refused { .. } | Self::TimedOut { .. } => None,
        }
    }
}
