//! What happens to calls, one event at a time.

use std::time::Duration;

use retryguard_core::{FailureKind, Refusal, target::AttemptKind};

/// One event of a call. Times are counted from the call's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEvent {
    /// An attempt is sent.
    Sent {
        /// Its number; the first is 1.
        attempt: u8,
        /// The first of its call, a retry or a hedge.
        kind: AttemptKind,
        /// When.
        at: Duration,
    },
    /// An attempt has ended, well or not.
    Ended {
        /// Its number.
        attempt: u8,
        /// How it failed; `None` for a success.
        failure: Option<FailureKind>,
        /// When.
        at: Duration,
    },
    /// The call is over.
    Finished {
        /// How many attempts it made.
        attempts: u8,
        /// Why there was no (other) attempt; `None` for a success.
        refusal: Option<Refusal>,
        /// When.
        at: Duration,
    },
    /// The caller has dropped the call.
    Abandoned {
        /// How many attempts it had made.
        attempts: u8,
    },
}

/// Receives every event of every call of a target: see
/// [`TargetHandle::observe_calls`](crate::TargetHandle::observe_calls). Runs in the task of the call, outside of the
/// target's lock. A closure of the same arguments is one.
pub trait CallObserver: Send + Sync {
    /// An event of a call to `target`.
    fn on_event(&self, target: &str, event: &CallEvent);
}

impl<F: Fn(&str, &CallEvent) + Send + Sync> CallObserver for F {
    fn on_event(&self, target: &str, event: &CallEvent) {
        self(target, event);
    }
}

/// A failed attempt in the history of an [`Error`](crate::Error).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Its number; the first is 1.
    pub attempt: u8,
    /// How it failed.
    pub failure: FailureKind,
    /// When it ended, since the beginning of the call.
    pub at: Duration,
}
