//! The state of a target's retries: what is desired, what a data plane holds, and the change between them.

use retryguard_core::ratio::Ratio;

use crate::domain::target::TargetName;

/// What shall be true of one target's retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryState {
    /// As the user configured them, with no trace of us.
    Original,
    /// None.
    Off,
    /// On the way back: a share of what the user configured.
    Part {
        /// The step of the ramp, from zero.
        step: u8,
        /// The share of retries that may be sent.
        share: Ratio,
    },
}

/// Which of two desired states lets fewer retries through.
#[must_use]
pub fn stricter(a: RetryState, b: RetryState) -> RetryState {
    let share = |desired| match desired {
        RetryState::Off => Ratio::ZERO,
        RetryState::Part { share, .. } => share,
        RetryState::Original => Ratio::ONE,
    };
    if share(b) < share(a) { b } else { a }
}

/// One change that the plan wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Whose retries.
    pub target: TargetName,
    /// What they shall be.
    pub desired: RetryState,
    /// The sentence for logs, events and the status: what was decided and the numbers that caused it.
    pub why: String,
    /// The term of leader election in which it was decided; it grows with every new leader. A data plane
    /// that can compare refuses a change of an older term than the one it has seen.
    pub term: u64,
}

/// What a data plane holds that is not the user's own configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whose retries.
    pub target: TargetName,
    /// What of ours is there.
    pub held: Observed,
}

/// Who has the last word on a target at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// We: this is what stands there.
    Managed(RetryState),
    /// The setting was changed outside this controller. What was written stands until the guard has let retries back on; the
    /// sentence says what was found. `apply` is then called with `RetryState::Original`: it leaves what they wrote and
    /// forgets that there was a dispute.
    Overridden(String),
}

/// What a translation onto a data plane cannot say, in a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss(pub String);
