//! The sources of counts.

#[cfg(feature = "aws")]
pub mod cloudwatch;
pub mod exposition;
pub mod prometheus;
pub mod scrape;
mod series;

use crate::adapters::start_error::StartError;
use crate::config;
use crate::domain::target::TargetName;
use crate::reconcile::source::Source;

/// Starts the source `prometheus`.
pub(crate) async fn prometheus(
    settings: &config::source::prometheus::PrometheusSettings,
    targets: Vec<(TargetName, config::source::prometheus::PrometheusTarget)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(prometheus::Prometheus::new(settings, targets)?))
}

/// Starts the source `scrape`.
pub(crate) async fn scrape(
    settings: &config::source::scrape::ScrapeSettings,
    targets: Vec<(TargetName, config::source::scrape::ScrapeTarget)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(scrape::Scrape::new(settings, targets)?))
}

/// Starts the source `cloudwatch`.
#[cfg(feature = "aws")]
pub(crate) async fn cloudwatch(
    settings: &config::source::cloudwatch::CloudWatchSettings,
    targets: Vec<(TargetName, config::source::cloudwatch::CloudWatchTarget)>,
) -> Result<Box<dyn Source>, StartError> {
    Ok(Box::new(cloudwatch::CloudWatch::start(settings, targets).await?))
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn cloudwatch(
    _settings: &config::source::cloudwatch::CloudWatchSettings,
    _targets: Vec<(TargetName, config::source::cloudwatch::CloudWatchTarget)>,
) -> Result<Box<dyn Source>, StartError> {
    Err(StartError::NotBuilt {
        what: "cloudwatch",
        feature: "aws",
    })
}
