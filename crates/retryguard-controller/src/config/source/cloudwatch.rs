//! The keys of the source `cloudwatch`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// How CloudWatch is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {}

/// How a target is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {}

impl Settings {
    pub(super) fn read(block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        block.close(mistakes);
        Some(Self {})
    }
}

impl Target {
    pub(super) fn read(_name: &str, _block: &mut Block<'_>, _mistakes: &mut Mistakes) -> Option<Self> {
        Some(Self {})
    }
}
