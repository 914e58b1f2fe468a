//! What is reported about endpoints: their state, and each change of it with its reason.

use std::time::Duration;

use super::Id;
use crate::time::Instant;

/// Whether an endpoint is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is used.
    In,
    /// It is left out until this moment.
    Out {
        /// When single attempts try it.
        until: Instant,
    },
    /// Single attempts try it.
    Trial,
}

impl State {
    /// The word used in metrics and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out { .. } => "out",
            Self::Trial => "trial",
        }
    }
}

/// Why an endpoint was left out or is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Out: it failed several times in a row while its peers succeeded.
    InARow,
    /// Out: it failed far more often than its peers.
    FailureShare,
    /// Out: a trial attempt failed.
    TrialFailed,
    /// Back: the trial attempts succeeded.
    TrialsSucceeded,
    /// Back: the other endpoints fail as well.
    OthersFail,
    /// Back: endpoints were removed, and too large a share of the rest would be out.
    Bound,
    /// Back: the policy leaves no endpoint out any more.
    Replaced,
}

impl Reason {
    /// The reason in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InARow => "failures in a row while its peers succeed",
            Self::FailureShare => "fails far more often than its peers",
            Self::TrialFailed => "a trial attempt failed",
            Self::TrialsSucceeded => "trial attempts succeeded",
            Self::OthersFail => "the other endpoints fail as well",
            Self::Bound => "endpoints were removed, too many would be out",
            Self::Replaced => "the policy changed",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An endpoint was left out, or is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub endpoint: Id,
    /// For how long it is left out; `None` if it is back.
    pub out_for: Option<Duration>,
    /// Why.
    pub reason: Reason,
}

/// What is known of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Which.
    pub endpoint: Id,
    /// Whether it is used.
    pub state: State,
    /// Attempts under way.
    pub under_way: u32,
    /// The share of its recent attempts that failed.
    pub failure_share: f64,
}
