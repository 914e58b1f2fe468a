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
    pub prometheus: Option<prometheus::Settings>,
    /// Our own scraper.
    pub scrape: Option<scrape::Settings>,
    /// Amazon CloudWatch.
    pub cloudwatch: Option<cloudwatch::Settings>,
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
                .and_then(|inner| prometheus::Settings::read(inner, place, mistakes)),
            scrape: block
                .block("scrape", mistakes)
                .and_then(|inner| scrape::Settings::read(inner, place, mistakes)),
            cloudwatch: block
                .block("cloudwatch", mistakes)
                .and_then(|inner| cloudwatch::Settings::read(inner, place, mistakes)),
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
