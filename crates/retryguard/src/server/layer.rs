//! The layer of a server.

use std::sync::{Arc, Once};

use retryguard_policy::Policy;
use tower_layer::Layer;

use super::{ServerGuard, processor, shared::Shared};

/// Protects a server by the policy of its service: `Router::new().layer(ServerLayer::new(&policy, "payments"))`.
///
/// It reads the tags of a request, sheds by them, waits for a turn where the policy bounds the work at once,
/// hands deadline and criticality to the calls that the handler makes, and marks failures that were already
/// retried below.
#[derive(Clone)]
pub struct ServerLayer {
    shared: Arc<Shared>,
    /// The processor is watched from the first service on, which is made inside a runtime.
    watched: Arc<Once>,
}

impl ServerLayer {
    /// The server side of one service of a policy.
    #[must_use]
    pub fn new(policy: &Policy, service: &str) -> Self {
        Self {
            shared: Arc::new(Shared::new(&policy.service(service))),
            watched: Arc::new(Once::new()),
        }
    }

    /// Puts a new policy in force; requests inside stay inside.
    pub fn replace(&self, policy: &Policy) {
        self.shared.replace(&policy.service(self.shared.name()));
    }
}

impl std::fmt::Debug for ServerLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerLayer")
            .field("service", &self.shared.name())
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = ServerGuard<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.watched.call_once(|| processor::watch(&self.shared));
        ServerGuard::new(inner, self.shared.clone())
    }
}
