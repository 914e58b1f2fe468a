//! What carries a decision to a data plane.

use std::future::Future;
use std::pin::Pin;

use crate::domain::state::{Change, Found, Loss};

/// An actuator's answer, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ActuatorError>> + Send + 'a>>;

/// A data plane's configuration of retries.
///
/// Every method can be called again at any time with the same arguments: a change that is already there is a
/// success. An actuator keeps what it needs to restore the user's own configuration *in the data plane*, so
/// that a controller that was killed finds it again.
pub trait Actuator: Send + Sync {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// What this data plane holds of ours at present. Asked at the start, whenever a change fails, and once in
    /// a while, so that a proxy that has restarted and forgotten is sent the setting again. A target that is not named is
    /// as the user configured it. Targets of a former configuration are named too, by the name that they had.
    fn find(&self) -> Answer<'_, Vec<Found>>;

    /// Makes one change; says what of it this data plane cannot express. `RetryState::Original` must also work for
    /// a target that only [`Actuator::find`] knows.
    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>>;

    /// What [`Actuator::apply`] would do, in a sentence, without doing it.
    fn describe(&self, change: &Change) -> String;

    /// What the status shows of this data plane beyond its targets; null for nothing.
    fn details(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Calls `changed` whenever the data plane may hold something else than it did, for as long as it is polled: what it
    /// holds is then asked for at once and not only at the next look. One that cannot tell never calls, and one that has
    /// lost sight of its data plane goes on trying; looks go on all the while.
    fn notice<'a>(
        &'a self,
        changed: &'a (dyn Fn() + Send + Sync),
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let _ = changed;
        Box::pin(std::future::pending())
    }

    /// This controller is not the leader any more. One that listens for its data plane stops answering it, so that the data plane
    /// finds the new leader; it begins again with the next [`Actuator::find`].
    fn stand_down(&self) {}
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActuatorError {
    /// There was no answer in time.
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
    /// It was changed outside this controller meanwhile; what was written stands.
    #[error("{what} was changed outside this controller: {reason}")]
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
