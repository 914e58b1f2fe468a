//! The keys of the source `prometheus`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// How the server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub url: String,
}

/// How a target is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {}

impl Settings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let url = block
            .text("url", "the address of a Prometheus server", mistakes)
            .map(str::to_owned);
        block.close(mistakes);
        Some(Self { url: url? })
    }
}

impl Target {
    pub(super) fn read(_name: &str, _block: &mut Block<'_>, _mistakes: &mut Mistakes) -> Option<Self> {
        Some(Self {})
    }
}
