//! What a guard is for: a service, or one caller's way to it.

use std::fmt;
use std::sync::Arc;

use retryguard_core::{Ratio, guard};

/// The name of a target, as the operator wrote it; the key under which everything about it is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetName(Arc<str>);

impl TargetName {
    /// From the operator's configuration.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The operator's configuration.
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

/// A target, as the reconciler needs it.
#[derive(Debug, Clone)]
pub struct TargetSpec {
    /// Its name.
    pub name: TargetName,
    /// The guards that it can have, in the order in which they are wanted.
    pub guards: Vec<guard::Settings>,
    /// The least gain for which a retry is worth sending.
    pub price: Ratio,
    /// The word of its source.
    pub source: &'static str,
    /// Its actuators, by their place in the list given to the reconciler.
    pub actuators: Vec<usize>,
}
