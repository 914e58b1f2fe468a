//! The keys of the source `scrape`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// What is scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The pages.
    pub addresses: Vec<String>,
}

/// How a target is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {}

impl Settings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let addresses = block.texts("addresses", "the addresses of pages of metrics", mistakes);
        block.close(mistakes);
        Some(Self {
            addresses: addresses?.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl Target {
    pub(super) fn read(_name: &str, _block: &mut Block<'_>, _mistakes: &mut Mistakes) -> Option<Self> {
        Some(Self {})
    }
}
