//! What a policy says about one target.

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
