//! The rules for each call to a target. Apart from [`crate::call`], because a target knows them too.

use std::time::Duration;

use crate::{
    backoff::Backoff,
    outcome::{Failure, FailureKind},
};

/// The rules for each call to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Attempts after the first that failures may cause.
    pub retries: u8,
    /// The waits before them.
    pub backoff: Backoff,
    /// How long one attempt may take; `None` for as long as the deadline leaves.
    pub attempt_timeout: Option<Duration>,
    /// How long the whole call may take, if the caller set nothing shorter; `None` for no limit.
    pub deadline: Option<Duration>,
    /// An attempt is not started unless at least this much time is left for it.
    pub least_attempt: Duration,
    /// How an attempt that ran out of time is read.
    pub timeout: Failure,
    /// Whether a failure that a layer below has already retried is retried again.
    pub retry_retried: bool,
}

impl Default for Settings {
    /// Two retries, ten seconds in all, no timeout of a single attempt.
    fn default() -> Self {
        Self {
            retries: 2,
            backoff: Backoff::default(),
            attempt_timeout: None,
            deadline: Some(Duration::from_secs(10)),
            least_attempt: Duration::from_millis(1),
            timeout: Failure::new(FailureKind::Timeout),
            retry_retried: false,
        }
    }
}
