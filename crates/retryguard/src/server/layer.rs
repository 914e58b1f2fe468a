//! The layer of a server.

use std::sync::{Arc, Once, Weak};

use http::{Extensions, HeaderMap};
use retryguard_policy::Policy;
use tower_layer::Layer;

use super::{ServerGuard, processor, shared::Shared, trust::Mapping};
use crate::for_http::tags::Received;

/// Protects a server by the policy of its service: `Router::new().layer(ServerLayer::new(&policy, "payments"))`.
///
/// It reads the tags of a request as far as the policy's `server.trust` believes them, sheds by them, waits for a turn where
/// the policy bounds the work at once, hands deadline and criticality to the calls that the handler makes, and marks failures that were already
/// retried below.
#[derive(Clone)]
pub struct ServerLayer {
    shared: Arc<Shared>,
    mapping: Option<Mapping>,
    /// The processor is watched from the first service on, which is made inside a runtime.
    watched: Arc<Once>,
}

impl ServerLayer {
    /// The server side of one service of a policy.
    #[must_use]
    pub fn new(policy: &Policy, service: &str) -> Self {
        Self {
            shared: Arc::new(Shared::new(&policy.service(service))),
            mapping: None,
            watched: Arc::new(Once::new()),
        }
    }

    /// Says for each request what is believed of its `retryguard-*` headers, in place of the policy's `server.trust`: by its
    /// headers, by its extensions (where a layer above has put who the caller is), and by what it claims. The
    /// headers of the request are overwritten with what is believed.
    ///
    /// ```
    /// use retryguard::{Policy, Trust, server::ServerLayer};
    ///
    /// struct Peer { is_ours: bool }
    ///
    /// let layer = ServerLayer::new(&Policy::default(), "payments").trust_by(|_headers, extensions, claimed| {
    ///     let ours = extensions.get::<Peer>().is_some_and(|peer| peer.is_ours);
    ///     claimed.believed(if ours { Trust::Internal } else { Trust::Edge })
    /// });
    /// ```
    #[must_use]
    pub fn trust_by(
        mut self,
        mapping: impl Fn(&HeaderMap, &Extensions, Received) -> Received + Send + Sync + 'static,
    ) -> Self {
        self.mapping = Some(Arc::new(mapping));
        self
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.shared))
    }

    /// Puts a new policy in force; requests inside stay inside.
    pub fn replace(&self, policy: &Policy) {
        self.shared.replace(&policy.service(self.shared.name()));
    }
}

/// A server that lives only as long as a layer or a service holds it.
pub(crate) struct WeakServer(Weak<Shared>);

impl WeakServer {
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Puts a new policy in force. False where the server is gone.
    pub(crate) fn replace(&self, policy: &Policy) -> bool {
        let shared = self.0.upgrade();
        if let Some(shared) = &shared {
            shared.replace(&policy.service(shared.name()));
        }
        shared.is_some()
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
        ServerGuard::new(inner, self.shared.clone(), self.mapping.clone())
    }
}
