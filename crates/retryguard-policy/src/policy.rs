//! The compiled form: what a driver reads.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use retryguard_core::{Criticality, shed, target};

use crate::classifier::Classifier;

/// Where orchestrators probe: Kubernetes' customary paths, and gRPC's own health service.
pub(crate) const EXEMPT: [&str; 4] = ["/healthz", "/livez", "/readyz", "/grpc.health.v1.Health/Check"];

/// How long a request may hold its place in a full server by default: as long as a call may take, because a caller does not
/// wait longer.
pub(crate) const FULL_TIMEOUT: Duration = Duration::from_secs(10);

/// A policy file, checked and compiled.
///
/// Cheap to clone and never changed: a driver that gets a new one swaps the whole, so that no call ever sees
/// half of one policy and half of another.
///
/// ```
/// let policy = retryguard_policy::Policy::parse("defaults: {maxRetries: 1}")?;
/// assert_eq!(policy.service("payments").target.call.retries, 1);
/// # Ok::<(), retryguard_policy::Diagnostics>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) defaults: Arc<Service>,
    pub(crate) services: BTreeMap<String, Arc<Service>>,
    pub(crate) gateway_retries: bool,
    pub(crate) remote_period: Duration,
    pub(crate) digest: String,
}

impl Policy {
    /// A name for what the policy says, in hexadecimal digits. It stands on every result, metric and status,
    /// so that a number can be traced to the policy behind it. Two files that say the same (by other
    /// comments, another order of keys, or a default written out) have the same one.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The rules for calls to `name`: its own where the policy lists it, and otherwise the defaults under
    /// that name, so that an unlisted service is as safe as a listed one.
    #[must_use]
    pub fn service(&self, name: &str) -> Arc<Service> {
        if let Some(service) = self.services.get(name) {
            return Arc::clone(service);
        }
        Arc::new(Service {
            name: name.to_owned(),
            ..(*self.defaults).clone()
        })
    }

    /// The rules for calls to `name`, if the policy lists it: for a program that takes a misspelt name for a mistake.
    ///
    /// ```
    /// let policy = retryguard_policy::Policy::parse("services: {payments: {}}")?;
    /// assert!(policy.listed("payments").is_some());
    /// assert!(policy.listed("paymetns").is_none());
    /// # Ok::<(), retryguard_policy::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn listed(&self, name: &str) -> Option<Arc<Service>> {
        self.services.get(name).cloned()
    }

    /// The services that the policy lists, by name.
    pub fn services(&self) -> impl Iterator<Item = (&str, &Arc<Service>)> {
        self.services
            .iter()
            .map(|(name, service)| (name.as_str(), service))
    }

    /// Whether the gateway retries as well. Off by default: retries at the edge multiply those of every
    /// layer behind it.
    #[must_use]
    pub const fn gateway_retries(&self) -> bool {
        self.gateway_retries
    }

    /// How often a client that got this policy from afar looks for a newer one. Part of the policy itself,
    /// so that the operator of a large fleet can slow its polling down without a release.
    #[must_use]
    pub const fn remote_period(&self) -> Duration {
        self.remote_period
    }
}

/// Everything that a policy says about one service: how others call it, and how it serves.
#[derive(Debug, Clone)]
pub struct Service {
    /// The name under which the policy lists it.
    pub name: String,
    /// The settings of the machines that calls to it go through. Shared, so that a call costs a pointer.
    pub target: Arc<target::Settings>,
    /// How its answers are read.
    pub classifier: Classifier,
    /// Which of its requests may be sent twice.
    pub idempotency: Idempotency,
    /// How many bytes of a request's body are kept for a second sending. A longer body goes out once and is
    /// not retried: keeping every body whole would let a client's memory grow with the target's trouble.
    pub replay_limit: usize,
    /// The criticality of calls that do not state one themselves.
    pub criticality: Criticality,
    /// Whether requests to it carry the `retryguard-*` headers. Off for third parties: what a program knows of its own
    /// requests is not theirs.
    pub tags: bool,
    /// How long a response's body may pause before it is given up; `None` for as long as it likes.
    pub body_timeout: Option<Duration>,
    /// How often periodic work towards it is done, for clients that let the policy say so.
    pub period: Option<Duration>,
    /// When it sheds load as a server; `None` for never.
    pub server: Option<shed::Settings>,
    /// How long it works on a request that carries no deadline of its own; `None` for as long as it takes.
    pub server_deadline: Option<Duration>,
    /// How long a request may hold its place while others are refused because the server is full; `None` for as long as it
    /// takes.
    pub server_full_timeout: Option<Duration>,
    /// What it believes of the `retryguard-*` headers of its requests.
    pub server_trust: Trust,
    /// Whether a request counts as in flight until the body of its response has ended.
    pub server_holds_bodies: bool,
    /// Paths that are served whatever the load.
    pub server_exempt: Vec<String>,
    /// The services that it calls to serve a request. Nothing at run time depends on it; the linter
    /// multiplies attempts along it.
    pub calls: Vec<String>,
}

/// What a server believes of the `retryguard-*` headers of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Nothing: they are ignored, and removed from the request. For a server that the world can reach.
    Edge,
    /// What can only make the request matter less: a deadline, a low criticality, the number of an attempt. No client gains
    /// by lying about these.
    #[default]
    Modest,
    /// Everything, critical-plus included. For a server that only one's own services can reach.
    Internal,
}

/// Which requests may be sent twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The HTTP methods that are idempotent by nature, in capitals.
    pub methods: Vec<String>,
    /// The header that carries an idempotency key. A request that has it may be sent twice, whatever its
    /// method.
    pub key_header: String,
    /// Whether the client layer adds a key to requests that need one and have none. Only useful where the
    /// server honours keys, so it is off unless asked for.
    pub add_keys: bool,
    /// Whether a request is retried although doing it twice may not be doing it once.
    pub retry_non_idempotent: bool,
}

impl Idempotency {
    /// Whether a request of this method may be sent twice without a key.
    #[inline]
    #[must_use]
    pub fn covers(&self, method: &str) -> bool {
        self.retry_non_idempotent || self.methods.iter().any(|known| known == method)
    }
}
