//! Where signals come from.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use retryguard_core::guard::{Sample, Signal};

use crate::target::TargetName;

/// What a source is asked for: one round over all of its targets.
pub type Round<'a> = Pin<Box<dyn Future<Output = Result<Vec<Reading>, SourceError>> + Send + 'a>>;

/// Something that counts what happens to targets.
///
/// It answers with counts over the time since the last round, never with totals: counter resets, NaN and
/// missing series are its own business, and a target that it knows nothing about is left out of the answer.
pub trait Source: Send {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// What happened since the last round.
    fn read(&mut self) -> Round<'_>;
}

/// What happened to one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which.
    pub target: TargetName,
    /// The counts.
    pub sample: Sample,
    /// The best signal that these counts can speak for, in the order rejections, retries per call, delay.
    pub signal: Signal,
    /// How old the newest of these counts is.
    pub age: Duration,
}

/// Why a round brought nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nobody answered, or not in time.
    #[error("{address} does not answer: {reason}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// What went wrong, without secrets.
        reason: String,
    },
    /// An answer came that is not what was asked for.
    #[error("{address} answers with something else than what was asked: {reason}")]
    Nonsense {
        /// Who was asked.
        address: String,
        /// What was wrong with the answer.
        reason: String,
    },
    /// The question was refused.
    #[error("{address} refuses: {reason}")]
    Refused {
        /// Who was asked.
        address: String,
        /// What it said.
        reason: String,
    },
}
