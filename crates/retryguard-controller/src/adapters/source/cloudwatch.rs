//! Amazon CloudWatch as a source of signals.
//!
//! **Grain and delay.** Its metrics have a grain of a minute, and a minute is whole only some time after it has
//! ended: `settle` is how long it is waited for. So what is read is up to `settle + period + every` old, three
//! minutes by default, and a storm of less than that is over before it is seen. What needs to be faster is read from
//! the callers themselves.
//!
//! **What is read.** Only whole periods, each of them once. A period without a value is not a reading: nothing happened,
//! or it is not written yet; it is asked for again until it is older than [`LOOK_BACK`] periods. A metric that is written
//! only when there is something to count (`sparse`) is zero where the calls of the same period are there.

mod batch;
mod fold;

use std::time::Duration;

use aws_sdk_cloudwatch::Client;

use crate::adapters::aws::configuration;
use crate::adapters::start_error::StartError;
use crate::clock::unix_time;
use crate::config::source::cloudwatch::{CloudWatchSettings, CloudWatchTarget};
use crate::domain::counts::Reading;
use crate::domain::target::TargetName;
use crate::reconcile::source::{Round, Source, SourceError};

use batch::Batches;

/// How the service is called in errors.
const ADDRESS: &str = "CloudWatch";

/// How many whole periods one question looks back: what came late is still taken, once.
pub const LOOK_BACK: u32 = 3;

/// Asks CloudWatch.
pub struct CloudWatch {
    client: Client,
    settings: CloudWatchSettings,
    targets: Vec<TargetSpec>,
    batches: Batches,
}

struct TargetSpec {
    name: TargetName,
    target: CloudWatchTarget,
    /// The beginning of the newest period that was read, in seconds since 1970.
    newest: Option<i64>,
}

impl CloudWatch {
    /// Nothing is asked before the first round.
    ///
    /// # Errors
    /// When no region is known.
    pub async fn start(
        settings: &CloudWatchSettings,
        targets: Vec<(TargetName, CloudWatchTarget)>,
    ) -> Result<Self, StartError> {
        let config = configuration("cloudwatch", &settings.reach).await?;
        let batches = Batches::new(targets.iter().map(|(_, target)| target), settings);
        Ok(Self {
            client: Client::new(&config),
            settings: settings.clone(),
            targets: targets
                .into_iter()
                .map(|(name, target)| TargetSpec {
                    name,
                    target,
                    newest: None,
                })
                .collect(),
            batches,
        })
    }

    async fn round(&mut self) -> Result<Vec<Reading>, SourceError> {
        let now = unix_time();
        let Some(window) = Window::new(now, &self.settings) else {
            return Ok(Vec::new());
        };
        let values = self
            .batches
            .ask(&self.client, window)
            .await
            .map_err(|trouble| trouble.into_source_error(ADDRESS))?;
        let mut readings = Vec::new();
        for watched in &mut self.targets {
            let Some(taken) = fold::fold(&watched.target, &values, watched.newest) else {
                continue;
            };
            watched.newest = Some(taken.newest);
            let end = Duration::from_secs(u64::try_from(taken.newest).unwrap_or(0)) + self.settings.period;
            readings.push(Reading {
                target: watched.name.clone(),
                counts: taken.counts,
                age: now.saturating_sub(end),
            });
        }
        Ok(readings)
    }
}

impl Source for CloudWatch {
    fn name(&self) -> &'static str {
        "cloudwatch"
    }

    fn every(&self) -> Duration {
        self.settings.every
    }

    fn read(&mut self) -> Round<'_> {
        Box::pin(self.round())
    }
}

/// The periods that are whole, from the beginning of the first to the end of the last, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    begin: i64,
    end: i64,
}

impl Window {
    /// `None` in the first minutes of 1970.
    fn new(now: Duration, settings: &CloudWatchSettings) -> Option<Self> {
        let period = i64::try_from(settings.period.as_secs()).ok()?;
        let settled = i64::try_from(now.checked_sub(settings.settle)?.as_secs()).ok()?;
        let end = settled - settled % period;
        let begin = end - period * i64::from(LOOK_BACK);
        (begin > 0).then_some(Self { begin, end })
    }

    fn holds(self, second: i64) -> bool {
        (self.begin..self.end).contains(&second)
    }
}

#[cfg(test)]
mod tests {
    use retryguard_core::Ratio;

    use super::*;
    use crate::config::aws::AwsAccess;

    #[test]
    fn a_period_is_read_when_it_has_ended_and_settled_and_not_before() {
        let settings = CloudWatchSettings {
            reach: AwsAccess::default(),
            every: Duration::from_secs(60),
            period: Duration::from_secs(60),
            settle: Duration::from_secs(60),
            quantile: Ratio::percent(99),
        };
        let at = |second| Window::new(Duration::from_secs(second), &settings);
        let window = at(6_119).unwrap();
        assert_eq!((window.begin, window.end), (5_820, 6_000));
        assert!(!window.holds(6_000), "its end and its settling are not over yet");
        assert_eq!(at(6_120).unwrap().end, 6_060);
        assert_eq!(at(30), None);
    }
}
