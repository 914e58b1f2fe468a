//! What stands on an edge: a policy of ours or of another library, as equals.
//!
//! Most foreign policies are settings of the very machines of the core: that is what makes them peers. Where
//! one has a part that the core does not have (a send limiter, a budget of concurrent retries), it is a small
//! machine of its own in `extra`, asked by the driver beside the core's.

mod chosen;
pub(crate) mod extra;
mod imported;
mod named;
mod unused;

use std::sync::Arc;

use retryguard_core::{Failure, FailureKind, outcome::Hints, shed, target};
use retryguard_policy::{
    Diagnostics, NetworkError, Policy,
    reading::{Mistakes, Node, read},
};

pub use chosen::{ChoiceError, chosen};
pub use extra::{Adaptive, Extra};
pub use named::{NAMES, named};
pub use unused::WITHOUT_EFFECT;

/// How failures are read, by the number of their kind.
pub(crate) type Readings = [Failure; FailureKind::ALL.len()];

/// A policy under comparison.
#[derive(Debug, Clone)]
pub struct ClientPolicy {
    /// The name that tables show.
    pub name: String,
    /// The settings of the machines.
    pub rules: Rules,
    /// A part that the machines do not have.
    pub extra: Extra,
    /// Whether all clients of an edge share one state, as under a controller; otherwise each has its own.
    pub shared: bool,
    /// Whether it knows what no real client can know: when the target has room.
    pub oracle: bool,
    /// Whether requests carry the deadline of their call to the services below.
    pub propagates: bool,
    /// Whether calls that can go through an outbox do.
    pub outbox: bool,
    /// Whether its clients know the time that all of them share; without it the guard measures nothing.
    pub shares_clock: bool,
    /// What the policy's file says that changes nothing in the simulator.
    pub notes: Vec<String>,
}

/// Where the settings come from.
#[derive(Debug, Clone)]
pub enum Rules {
    /// The same for every target.
    Same(Arc<target::Settings>),
    /// A policy file.
    File(Policy),
}

impl ClientPolicy {
    /// A policy file as a client policy.
    #[must_use]
    pub fn of_policy(name: impl Into<String>, policy: Policy) -> Self {
        Self {
            name: name.into(),
            rules: Rules::File(policy),
            extra: Extra::None,
            shared: false,
            oracle: false,
            propagates: true,
            outbox: false,
            shares_clock: true,
            notes: Vec::new(),
        }
    }

    /// The text of a policy file as a client policy.
    pub fn of_text(name: impl Into<String>, text: &str) -> Result<Self, Diagnostics> {
        let client_policy = Self::of_policy(name, Policy::parse(text)?);
        let root = read(text, &mut Mistakes::default());
        Ok(match root {
            Some(root) => client_policy.noting(&root),
            None => client_policy,
        })
    }

    /// The same, with notes on what the policy that stands at this node says without effect.
    #[must_use]
    pub fn noting(mut self, node: &Node) -> Self {
        self.notes = unused::notes(node);
        self
    }

    /// How the answers of `service` are read, by their kind, where the policy reads them in another way than by default.
    ///
    /// Simulated services speak HTTP: an overload is a 503, a fault a 500, a timeout a 504 and a mistake of the request a
    /// 400. What cannot be reached and what breaks off is the network's.
    pub(crate) fn readings(&self, service: &str) -> Option<Box<Readings>> {
        let Rules::File(policy) = &self.rules else {
            return None;
        };
        let classifier = &policy.service(service).classifier;
        let read = |kind: FailureKind| {
            let outcome = match kind {
                FailureKind::Overload => classifier.http(503, Hints::NONE),
                FailureKind::Fault => classifier.http(500, Hints::NONE),
                FailureKind::Timeout => classifier.http(504, Hints::NONE),
                FailureKind::Request => classifier.http(400, Hints::NONE),
                FailureKind::Quota => classifier.http(507, Hints::NONE),
                FailureKind::Unreachable => classifier.network(NetworkError::Connect),
                FailureKind::Disconnected => classifier.network(NetworkError::Reset),
                FailureKind::Cancelled => classifier.network(NetworkError::Cancelled),
            };
            outcome.failure().copied().unwrap_or(Failure::new(kind))
        };
        let readings = FailureKind::ALL.map(read);
        let usual = FailureKind::ALL.map(Failure::new);
        (readings != usual).then(|| Box::new(readings))
    }

    /// Whether requests to `service` carry the deadline of their call.
    pub(crate) fn propagates_to(&self, service: &str) -> bool {
        self.propagates
            && match &self.rules {
                Rules::Same(_) => true,
                Rules::File(policy) => policy.service(service).tags,
            }
    }

    /// The settings for calls to `service`.
    #[must_use]
    pub fn settings(&self, service: &str) -> Arc<target::Settings> {
        match &self.rules {
            Rules::Same(settings) => Arc::clone(settings),
            Rules::File(policy) => Arc::clone(&policy.service(service).target),
        }
    }

    /// How `service` sheds load as a server.
    #[must_use]
    pub fn shed(&self, service: &str) -> Option<shed::Settings> {
        match &self.rules {
            Rules::Same(_) => None,
            Rules::File(policy) => policy.service(service).server,
        }
    }

    /// Whether a request to `service` that must not be done twice is retried all the same. Foreign policies
    /// do not ask; ours does unless keys are added or it is told not to care.
    #[must_use]
    pub fn retries_everything(&self, service: &str) -> bool {
        match &self.rules {
            Rules::Same(_) => true,
            Rules::File(policy) => {
                let idempotency = policy.service(service).idempotency.clone();
                idempotency.add_keys || idempotency.retry_non_idempotent
            }
        }
    }

    /// Whether it gives requests to `service` an idempotency key.
    #[must_use]
    pub fn adds_keys(&self, service: &str) -> bool {
        match &self.rules {
            Rules::Same(_) => false,
            Rules::File(policy) => policy.service(service).idempotency.add_keys,
        }
    }

    /// A name for what the policy says, for results; empty for a foreign one, whose name says it all.
    #[must_use]
    pub fn digest(&self) -> &str {
        match &self.rules {
            Rules::Same(_) => "",
            Rules::File(policy) => policy.digest(),
        }
    }

    /// Whether calls under these settings leave nothing behind that a later call would meet, as long as the
    /// target tells nothing beside its failures.
    #[must_use]
    pub fn keeps_no_state(&self, settings: &target::Settings) -> bool {
        self.extra == Extra::None
            && settings.breaker.is_none()
            && settings.budget.is_none()
            && settings.throttle.is_none()
            && settings.bulkhead.is_none()
            && settings.hedge.is_none()
            && settings.guard.is_none()
    }

    /// Whether it obeys hints that come with a failure: Retry-After, and marks of layers below.
    #[must_use]
    pub const fn hears_hints(&self) -> bool {
        matches!(self.rules, Rules::File(_))
    }

    /// Changes the settings of a foreign policy; a policy file says for itself what it says.
    pub fn change(&mut self, change: impl FnOnce(&mut target::Settings)) {
        if let Rules::Same(settings) = &mut self.rules {
            change(Arc::make_mut(settings));
        }
    }
}
