//! Leave to send one attempt.

use crate::{breaker::Pass, criticality::Criticality, guard::Arm, time::Instant};

/// What kind of attempt asks to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    /// The first of its call.
    First,
    /// One after a failure.
    Retry,
    /// One beside another that is still running.
    Hedge,
}

impl AttemptKind {
    /// The word used in tags and metric labels.
    #[inline]
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
        }
    }
}

/// Leave to send one attempt. Not `Clone`; given back exactly once, when the attempt is settled or abandoned. A
/// debug build panics when one is lost.
#[derive(Debug)]
#[must_use = "a permit is settled or abandoned"]
pub struct Permit {
    pub(super) kind: AttemptKind,
    pub(super) criticality: Criticality,
    pub(super) started: Instant,
    /// In which slot of the guard's measurement it started.
    pub(super) arm: Arm,
    pub(super) pass: Option<Pass>,
    pub(super) given_back: bool,
}

impl Permit {
    /// The kind of attempt it was given for.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> AttemptKind {
        self.kind
    }

    /// Marks it as given back, once.
    #[inline]
    pub(super) fn give_back(&mut self) {
        debug_assert!(!self.given_back, "a permit is given back once");
        self.given_back = true;
    }

    /// Whether the attempt probes a half-open breaker.
    #[inline]
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.pass.is_some_and(Pass::is_probe)
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.given_back || std::thread::panicking(), "a permit was lost");
    }
}

/// The answer to an attempt that asks to be sent.
#[derive(Debug)]
pub(crate) enum Admission {
    Sent(Permit),
    Queued(Queued),
}

/// An attempt that waits for a place in the bulkhead.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) kind: AttemptKind,
    /// Until when it may wait.
    pub(crate) until: Instant,
}
