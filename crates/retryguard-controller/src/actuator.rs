//! What carries a decision to a data plane.

use std::future::Future;
use std::pin::Pin;

use retryguard_core::ratio::Ratio;

use crate::target::TargetName;

/// An actuator's answer, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ActuatorError>> + Send + 'a>>;

/// What shall be true of one target's retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
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

/// One change that the plan wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Whose retries.
    pub target: TargetName,
    /// What they shall be.
    pub wish: Wish,
    /// The sentence for logs, events and the status: what was decided and the numbers that caused it.
    pub why: String,
}

/// What a translation onto a data plane cannot say, in a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss(pub String);

/// A data plane's configuration of retries.
///
/// Every method can be called again at any time with the same arguments: a change that is already there is a
/// success. An actuator keeps what it needs to restore the user's own configuration *in the data plane*, so
/// that a controller that was killed finds it again.
pub trait Actuator: Send + Sync {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// What this data plane holds of ours at present. Asked at the start, and whenever a change fails.
    fn find(&self) -> Answer<'_, Vec<(TargetName, Wish)>>;

    /// Makes one change; says what of it this data plane cannot express.
    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>>;

    /// What [`Actuator::apply`] would do, in a sentence, without doing it.
    fn describe(&self, change: &Change) -> String;
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActuatorError {
    /// Nobody answered, or not in time.
    #[error("{address} does not answer: {reason}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// What went wrong, without secrets.
        reason: String,
    },
    /// The data plane wants to be asked again later.
    #[error("{address} asks to come back later: {reason}")]
    Busy {
        /// Who was asked.
        address: String,
        /// What it said.
        reason: String,
    },
    /// Somebody else changed the same thing meanwhile; what they wrote stands.
    #[error("{what} was changed by somebody else: {reason}")]
    Conflict {
        /// The object.
        what: String,
        /// What was found.
        reason: String,
    },
    /// The data plane refused it for good.
    #[error("{what} cannot be changed: {reason}")]
    Refused {
        /// The object.
        what: String,
        /// What it said.
        reason: String,
    },
}
