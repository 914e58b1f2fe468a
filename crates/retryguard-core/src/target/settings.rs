//! What a policy says about one target.

use std::sync::Arc;

use crate::{breaker, budget, bulkhead, endpoints, gate, guard, hedge, rules, throttle};

/// Everything that a compiled policy says about one target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The rules for each call.
    pub call: rules::Settings,
    /// How the target's hints are obeyed.
    pub gate: gate::Settings,
    /// The breaker, if there is one.
    pub breaker: Option<breaker::Settings>,
    /// The budget, if there is one.
    pub budget: Option<budget::Settings>,
    /// The throttle, if there is one.
    pub throttle: Option<throttle::Settings>,
    /// The bulkhead, if there is one.
    pub bulkhead: Option<bulkhead::Settings>,
    /// Hedging, if it is wanted.
    pub hedge: Option<hedge::Settings>,
    /// The guard, if there is one.
    pub guard: Option<guard::Settings>,
    /// When an endpoint is left out, where a client knows several; `None` for never. The target itself does not read it:
    /// [`Endpoints`](endpoints::Endpoints) does.
    pub endpoints: Option<endpoints::Settings>,
    /// Features whose calls are refused.
    pub features_off: Vec<Box<str>>,
}

/// The settings as the parts of a target keep them: all targets of a policy share them. A large simulation has a million
/// targets, and the settings would be most of what each of them takes.
#[derive(Debug, Clone)]
pub(crate) struct Shared(pub(super) Arc<Settings>);

impl AsRef<gate::Settings> for Shared {
    #[inline]
    fn as_ref(&self) -> &gate::Settings {
        &self.0.gate
    }
}

impl AsRef<breaker::Settings> for Shared {
    #[inline]
    fn as_ref(&self) -> &breaker::Settings {
        self.0
            .breaker
            .as_ref()
            .expect("there is a breaker where there are settings for it")
    }
}

impl AsRef<budget::Settings> for Shared {
    #[inline]
    fn as_ref(&self) -> &budget::Settings {
        self.0
            .budget
            .as_ref()
            .expect("there is a budget where there are settings for it")
    }
}

impl AsRef<guard::Settings> for Shared {
    #[inline]
    fn as_ref(&self) -> &guard::Settings {
        self.0
            .guard
            .as_ref()
            .expect("there is a guard where there are settings for it")
    }
}

impl AsRef<bulkhead::Settings> for Shared {
    #[inline]
    fn as_ref(&self) -> &bulkhead::Settings {
        /// A policy without a bulkhead.
        static UNLIMITED: bulkhead::Settings = bulkhead::Settings {
            limit: bulkhead::Limit::Fixed(u32::MAX),
            wait: std::time::Duration::ZERO,
            waiting: 0,
        };
        self.0.bulkhead.as_ref().unwrap_or(&UNLIMITED)
    }
}
