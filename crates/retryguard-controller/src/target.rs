//! What a guard is for: a service, or one caller's way to it.

use std::fmt;
use std::sync::Arc;

/// The name of a target, as the operator wrote it; the key under which everything about it is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetName(Arc<str>);

impl TargetName {
    /// From the operator's word.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The operator's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
