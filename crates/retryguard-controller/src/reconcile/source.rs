//! Where counts come from.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::domain::counts::Reading;

/// What a source is asked for: one round over all of its targets.
pub type Round<'a> = Pin<Box<dyn Future<Output = Result<Vec<Reading>, SourceError>> + Send + 'a>>;

/// Something that counts what happens to targets.
///
/// It answers with counts over the time since the last round, never with totals: counter resets, NaN and
/// missing series are its own business, and a target that it knows nothing about is left out of the answer.
/// So is a target about which it knows nothing *new*: the same counts twice would be two samples of one event.
pub trait Source: Send {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// How long to wait between two rounds.
    fn every(&self) -> Duration;

    /// What happened since the last round.
    fn read(&mut self) -> Round<'_>;

    /// Whether a round is the difference to the one before. Such a source is read while another controller leads too:
    /// after a pause its first difference would span the whole pause. All others rest meanwhile, which halves what two
    /// controllers ask of a Prometheus and what they pay for CloudWatch.
    fn compares(&self) -> bool {
        false
    }
}

/// Why a round brought nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There was no answer in time.
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
