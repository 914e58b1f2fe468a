//! The key `sources`.

pub mod cloudwatch;
pub mod preset;
pub mod prometheus;
pub mod scrape;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::domain::limits::Limits;

/// Where signals come from: at most one of each kind.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A Prometheus server.
    pub prometheus: Option<prometheus::PrometheusSettings>,
    /// Our own scraper.
    pub scrape: Option<scrape::ScrapeSettings>,
    /// Amazon CloudWatch.
    pub cloudwatch: Option<cloudwatch::CloudWatchSettings>,
}

impl Sources {
    pub(super) fn read(block: &mut Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Self {
        let wanted = "one of prometheus, scrape, cloudwatch";
        let Some(node) = block.need("sources", wanted, mistakes) else {
            return Self::default();
        };
        let Some(mut block) = Block::open(node, "sources", mistakes) else {
            return Self::default();
        };
        let all = Self {
            prometheus: block
                .block("prometheus", mistakes)
                .and_then(|inner| prometheus::PrometheusSettings::read(inner, place, mistakes)),
            scrape: block
                .block("scrape", mistakes)
                .and_then(|inner| scrape::ScrapeSettings::read(inner, place, mistakes)),
            cloudwatch: block
                .block("cloudwatch", mistakes)
                .and_then(|inner| cloudwatch::CloudWatchSettings::read(inner, place, mistakes)),
        };
        // One with a mistake is not missing as well.
        if block.is_empty() {
            mistakes.add(block.at(), "no source", format!("add {wanted}"));
        }
        block.close(mistakes);
        all
    }

    /// A decision must not end between two rounds of its source: retries would be on and off in turns.
    pub(super) fn check(&self, limits: &Limits, block: &Block<'_>, mistakes: &mut Mistakes) {
        if let Some(cloudwatch) = &self.cloudwatch {
            cloudwatch.check(limits, block, mistakes);
        }
        let prometheus = self.prometheus.as_ref().map(|settings| settings.every);
        let scrape = self.scrape.as_ref().map(|settings| settings.every);
        for (word, every) in [("prometheus", prometheus), ("scrape", scrape)] {
            if let Some(every) = every.filter(|every| limits.restore_after() <= *every) {
                mistakes.add(
                    block.at(),
                    format!(
                        "`{word}` is read every {} s, and `limits.hold` ends a decision that has had no data for {} s",
                        every.as_secs_f64(),
                        limits.restore_after().as_secs_f64()
                    ),
                    format!("write `limits: {{hold: {}s}}` or more", (3 * every).as_secs().max(1)),
                );
            }
        }
    }

    /// How many are configured.
    pub(super) fn count(&self) -> usize {
        [
            self.prometheus.is_some(),
            self.scrape.is_some(),
            self.cloudwatch.is_some(),
        ]
        .into_iter()
        .filter(|configured| *configured)
        .count()
    }
}
