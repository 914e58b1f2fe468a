//! The inputs of a call and its answers.

use std::time::Duration;

use crate::{
    bulkhead::Ticket, criticality::Criticality, deadline::Deadline, outcome::Failure, refusal::Refusal,
    target::AttemptKind, time::Instant,
};

/// What the driver knows of a request before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The caller's own deadline; the policy's bounds it further.
    pub deadline: Deadline,
    /// How much the request matters.
    pub criticality: Criticality,
    /// Whether the request is idempotent, by itself or by an idempotency key.
    pub idempotent: bool,
    /// Whether it can be sent again.
    pub replayable: bool,
    /// The name under which the call waits for a place.
    pub ticket: Ticket,
}

/// What one request asks for in place of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overrides {
    /// Attempts after the first that failures may cause. The guard and the budget bound them all the same.
    pub retries: Option<u8>,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Duration>,
}

/// What the driver does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until a timer, an outcome or a place.
    Wait,
    /// Send this attempt.
    Send(Attempt),
    /// Drop the attempt of this number; its time is up.
    Cancel(u8),
    /// The call is over.
    Done(Verdict),
}

/// An attempt to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number within the call; the first is 1.
    pub number: u8,
    /// What it is.
    pub kind: AttemptKind,
    /// When its time is up.
    pub ends: Instant,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This attempt succeeded.
    Success {
        /// Its number.
        number: u8,
    },
    /// The last attempt failed, and this is why there is no other. Its result, if it has one, is the result
    /// of the call.
    Failure {
        /// The number of the last attempt that failed.
        number: u8,
        /// How it failed.
        failure: Failure,
        /// Why it was not retried.
        refusal: Refusal,
        /// How long the caller should stay away.
        retry_after: Option<Duration>,
    },
    /// Nothing was sent at all.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How long the caller should stay away.
        retry_after: Option<Duration>,
    },
}
