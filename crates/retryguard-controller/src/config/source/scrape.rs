//! The keys of the source `scrape`.

use std::{path::PathBuf, time::Duration};

use retryguard_core::Ratio;
use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::address;
use crate::config::source::preset::{PRESETS, Preset};

/// The most pages that one controller scrapes. More of them are Prometheus' work.
pub const MOST_PAGES: usize = 100;

/// What is scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeSettings {
    /// The pages.
    pub addresses: Vec<String>,
    /// The file with the token that they want.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates that it is trusted by; the machine's where none is written.
    pub ca_file: Option<PathBuf>,
    /// How often.
    pub every: Duration,
    /// Which quantile of the delay is read.
    pub quantile: Ratio,
}

/// How a target is found in the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeTarget {
    /// Which lines are its.
    pub preset: Preset,
    /// Whether its delay is read.
    pub delay: bool,
}

impl ScrapeSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let addresses = block.texts("addresses", "the addresses of pages of metrics", mistakes);
        if addresses.is_none() {
            let wanted = "the pages of metrics, such as [http://127.0.0.1:9901/stats/prometheus]";
            let _ = block.need("addresses", wanted, mistakes);
        }
        let addresses: Vec<String> = addresses
            .unwrap_or_default()
            .into_iter()
            .filter_map(|text| address::checked(text, at, mistakes))
            .collect();
        if addresses.len() > MOST_PAGES {
            mistakes.add(
                at,
                format!("{} pages to scrape", addresses.len()),
                format!("write at most {MOST_PAGES}; more of them are Prometheus' work"),
            );
        }
        let token_file = place.token_file(&mut block, mistakes);
        let ca_file = place.pem_file("caFile", &mut block, mistakes);
        let limits = Duration::from_millis(100)..=Duration::from_secs(3600);
        let every = block.duration("every", limits, mistakes);
        let quantile = block.share("quantile", Ratio::percent(1)..=Ratio::percent(99), mistakes);
        block.close(mistakes);
        Some(Self {
            addresses,
            token_file,
            ca_file,
            every: every.unwrap_or(Duration::from_secs(1)),
            quantile: quantile.unwrap_or(Ratio::percent(95)),
        })
    }
}

impl ScrapeTarget {
    pub(in crate::config) fn read(
        name: &str,
        delay: bool,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let at = block.at();
        let preset = Preset::read(name, block, mistakes);
        if preset.is_none() {
            mistakes.add(
                at,
                format!("`{name}` does not say which metrics are its"),
                format!("give its scrape block one of {PRESETS}"),
            );
        }
        Some(Self {
            preset: preset?,
            delay,
        })
    }
}
