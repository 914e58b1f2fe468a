//! What a caller gets when there is no response.

use std::time::Duration;

use retryguard_core::Refusal;
use std::{error::Error as StdError, fmt};

use crate::observer::FailedAttempt;

/// An error of any kind, as tower and hyper box them.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The error of an HTTP service of any kind, boxed as [`BoxError`] is, and an error itself, which that is not. So a
/// layer works over `hyper`'s client, over a `Buffer` and over a boxed service alike, and its own errors can be
/// boxed again.
pub struct BoxedError(BoxError);

impl BoxedError {
    /// Boxes an error. One that is already boxed is not boxed again.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    /// The error as the service below gave it, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The error itself.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn StdError + 'static) {
        &*self.0
    }

    /// The error in its box.
    #[must_use]
    pub fn into_inner(self) -> BoxError {
        self.0
    }
}

impl fmt::Debug for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for BoxedError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// Why a call has no response. Says which part refused and why, and how long to stay away.
///
/// A failed *response* (a 503, say) is not an error here: it is returned as the response that it is, after
/// whatever retries were allowed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// Nothing was sent.
    Refused {
        /// The part that refused.
        refusal: Refusal,
        /// How long to stay away, where the target or a part of the policy said so.
        retry_after: Option<Duration>,
    },
    /// The last attempt ran out of time.
    TimedOut {
        /// How many attempts were made.
        attempts: u8,
        /// Why there was no other.
        refusal: Refusal,
        /// How long to stay away, where the target or a part of the policy said so.
        retry_after: Option<Duration>,
        /// Every attempt that failed, in the order of their ends.
        history: Vec<FailedAttempt>,
    },
    /// The last attempt failed without a response.
    Failed {
        /// What the service below said.
        error: E,
        /// How many attempts were made.
        attempts: u8,
        /// Why there was no other.
        refusal: Refusal,
        /// How long to stay away, where the target or a part of the policy said so.
        retry_after: Option<Duration>,
        /// Every attempt that failed, in the order of their ends.
        history: Vec<FailedAttempt>,
    },
    /// The service below said that it will never be ready again.
    NotReady(E),
    /// The address is `https`, and the client below was built without TLS. Only from [`reqwest`](mod@crate::for_reqwest).
    #[cfg(feature = "reqwest")]
    NoTls,
}

impl<E> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A request that no client can send has made no attempt.
            Self::Refused { refusal, .. }
            | Self::Failed {
                attempts: 0, refusal, ..
            } => write!(f, "not sent: {refusal} ({})", refusal.next_step()),
            Self::TimedOut {
                attempts, refusal, ..
            } => {
                let next_step = refusal.next_step();
                write!(
                    f,
                    "no answer in time at attempt {attempts}; not retried: {refusal} ({next_step})"
                )
            }
            Self::Failed {
                attempts, refusal, ..
            } => {
                let next_step = refusal.next_step();
                write!(
                    f,
                    "failed at attempt {attempts}; not retried: {refusal} ({next_step})"
                )
            }
            Self::NotReady(_) => f.write_str("the service below is not ready"),
            #[cfg(feature = "reqwest")]
            Self::NoTls => f.write_str(concat!("the address is https and ", crate::tls::advice!())),
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let error: &(dyn StdError + 'static) = match self {
            Self::Failed { error, .. } | Self::NotReady(error) => error,
            _ => return None,
        };
        // The box itself is not part of the chain: code that looks for hyper's or tonic's errors finds them.
        Some(error.downcast_ref().map_or(error, BoxedError::get_ref))
    }
}

impl Error<BoxError> {
    /// The same as an error that can be boxed again: `BoxError` does not implement `std::error::Error`. A
    /// [`BoxErrorsLayer`](crate::BoxErrorsLayer) below does it for all errors of a service.
    #[must_use]
    pub fn boxed(self) -> Error<BoxedError> {
        self.map(BoxedError)
    }
}

impl<E> Error<E> {
    /// Why there was no (other) attempt.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } | Self::TimedOut { refusal, .. } | Self::Failed { refusal, .. } => {
                Some(*refusal)
            }
            _ => None,
        }
    }

    /// How long to stay away, where the target, the breaker or the gate said so. Already spread out: callers
    /// may use it as it is.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. }
            | Self::TimedOut { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// How many attempts were made.
    pub const fn attempts(&self) -> u8 {
        match self {
            Self::TimedOut { attempts, .. } | Self::Failed { attempts, .. } => *attempts,
            _ => 0,
        }
    }

    /// The attempts that failed, in the order of their ends.
    #[must_use]
    pub fn history(&self) -> &[FailedAttempt] {
        match self {
            Self::TimedOut { history, .. } | Self::Failed { history, .. } => history,
            _ => &[],
        }
    }

    /// The same with another error of the service below.
    pub fn map<T>(self, map: impl FnOnce(E) -> T) -> Error<T> {
        match self {
            Self::Refused { refusal, retry_after } => Error::Refused { refusal, retry_after },
            Self::TimedOut {
                attempts,
                refusal,
                retry_after,
                history,
            } => Error::TimedOut {
                attempts,
                refusal,
                retry_after,
                history,
            },
            Self::Failed {
                error,
                attempts,
                refusal,
                retry_after,
                history,
            } => Error::Failed {
                error: map(error),
                attempts,
                refusal,
                retry_after,
                history,
            },
            Self::NotReady(error) => Error::NotReady(map(error)),
            #[cfg(feature = "reqwest")]
            Self::NoTls => Error::NoTls,
        }
    }

    /// The error of the service below.
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::Failed { error, .. } | Self::NotReady(error) => Some(error),
            _ => None,
        }
    }
}
