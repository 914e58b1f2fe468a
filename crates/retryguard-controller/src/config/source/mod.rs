//! The key `sources`.

pub(crate) mod address;
pub mod cloudwatch;
pub mod preset;
pub mod prometheus;
pub mod scrape;

use retryguard_core::guard;
use retryguard_policy::{
    Position,
    reading::{Block, Mistakes},
};

use super::{Place, Target, target::part};

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

    fn count(&self) -> usize {
        [
            self.prometheus.is_some(),
            self.scrape.is_some(),
            self.cloudwatch.is_some(),
        ]
        .into_iter()
        .filter(|configured| *configured)
        .count()
    }

    /// The blocks of one target.
    pub(super) fn read_target(
        &self,
        block: &mut Block<'_>,
        target: &mut Target,
        at: Position,
        mistakes: &mut Mistakes,
    ) {
        let only = self.count() == 1;
        let name = target.name.as_str().to_owned();
        let reads_delay = |guard: &guard::Settings| guard.signal == guard::Signal::Delay;
        let delay = target.guards.iter().any(reads_delay);
        let has = self.prometheus.is_some();
        target.prometheus = part(
            block,
            "prometheus",
            has,
            only && has,
            mistakes,
            |inner, mistakes| prometheus::Target::read(&name, delay, inner, mistakes),
        );
        let has = self.scrape.is_some();
        target.scrape = part(block, "scrape", has, only && has, mistakes, |inner, mistakes| {
            scrape::Target::read(&name, delay, inner, mistakes)
        });
        let has = self.cloudwatch.is_some();
        target.cloudwatch = part(
            block,
            "cloudwatch",
            has,
            only && has,
            mistakes,
            |inner, mistakes| cloudwatch::Target::read(&name, inner, mistakes),
        );
        let blocks = [
            target.prometheus.is_some(),
            target.scrape.is_some(),
            target.cloudwatch.is_some(),
        ];
        if blocks.into_iter().filter(|written| *written).count() != 1 && self.count() > 1 {
            mistakes.add(
                at,
                format!("`{name}` has not exactly one source"),
                "give it one block of prometheus, scrape, cloudwatch",
            );
        }
    }
}
