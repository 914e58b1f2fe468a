//! The layer, which owns what its services share.

use std::sync::Arc;

use retryguard_policy::{Policy, Service as ServicePolicy};
use tower_layer::Layer;

use super::RetryGuard;
use crate::{handle::TargetHandle, protocol::Plain, shared::Shared};

/// Runs a policy around every service that it wraps. All of them, and all their clones, share one target. So do other
/// layers that are made from the same [`Policy`] (or a clone of it) for a service of the same name: two clients of one
/// service share what they know of it, and its metrics show one state. A policy that is parsed anew has targets of its
/// own; [`LivePolicy`](crate::remote::LivePolicy) keeps its targets through changes.
///
/// ```
/// use retryguard::{Policy, RetryGuardLayer, protocol::Plain};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let policy = Policy::parse("services: { payments: { maxRetries: 1 } }").unwrap();
/// let layer = RetryGuardLayer::new(&policy, "payments", Plain::idempotent());
/// let service = layer.layer(service_fn(|amount: u32| async move { Ok::<_, std::io::Error>(amount) }));
/// assert_eq!(service.oneshot(7).await.unwrap(), 7);
/// # }
/// ```
#[derive(Clone)]
pub struct RetryGuardLayer<P = Plain> {
    shared: Arc<Shared>,
    protocol: P,
}

impl<P> RetryGuardLayer<P> {
    /// The policy of one service, for requests of a protocol.
    pub fn new(policy: &Policy, service: &str, protocol: P) -> Self {
        Self::from_service(policy.service(service), protocol)
    }

    /// The same from a compiled service.
    pub fn from_service(policy: Arc<ServicePolicy>, protocol: P) -> Self {
        Self::from_shared(Shared::of(policy), protocol)
    }

    pub(crate) const fn from_shared(shared: Arc<Shared>, protocol: P) -> Self {
        Self { shared, protocol }
    }

    /// A handle on the target, to look at it and to replace its policy.
    pub fn handle(&self) -> TargetHandle {
        TargetHandle::new(self.shared.clone())
    }
}

impl<P> std::fmt::Debug for RetryGuardLayer<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryGuardLayer")
            .field("target", &self.shared.name())
            .finish_non_exhaustive()
    }
}

impl<S, P: Clone> Layer<S> for RetryGuardLayer<P> {
    type Service = RetryGuard<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryGuard::new(inner, self.protocol.clone(), self.shared.clone())
    }
}
