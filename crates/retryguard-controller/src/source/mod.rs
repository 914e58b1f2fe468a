//! Where signals come from.

#[cfg(feature = "aws")]
pub mod cloudwatch;
mod exposition;
pub mod prometheus;
pub mod scrape;
mod series;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{config, counts::Counts, start::StartError, target::TargetName};

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

/// What happened to one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which.
    pub target: TargetName,
    /// The counts.
    pub counts: Counts,
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

/// Starts the source `prometheus`.
pub(crate) async fn prometheus(
    settings: &config::source::prometheus::Settings,
    targets: Vec<(TargetName, config::source::prometheus::Target)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(prometheus::Prometheus::new(settings, targets)?))
}

/// Starts the source `scrape`.
pub(crate) async fn scrape(
    settings: &config::source::scrape::Settings,
    targets: Vec<(TargetName, config::source::scrape::Target)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(scrape::Scrape::new(settings, targets)?))
}

/// Starts the source `cloudwatch`.
#[cfg(feature = "aws")]
pub(crate) async fn cloudwatch(
    settings: &config::source::cloudwatch::Settings,
    targets: Vec<(TargetName, config::source::cloudwatch::Target)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(cloudwatch::CloudWatch::start(settings, targets).await?))
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn cloudwatch(
    _settings: &config::source::cloudwatch::Settings,
    _targets: Vec<(TargetName, config::source::cloudwatch::Target)>,
) -> Result<Box<dyn Source>, StartError> {
    Err(StartError::NotBuilt {
        what: "cloudwatch",
        feature: "aws",
    })
}
