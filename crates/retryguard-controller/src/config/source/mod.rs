//! The key `sources`.

pub mod cloudwatch;
pub mod preset;
pub mod prometheus;
pub mod scrape;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

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
        let at = block.at();
        block.close(mistakes);
        if all.count() == 0 {
            mistakes.add(at, "no source", format!("add {wanted}"));
        }
        all
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
