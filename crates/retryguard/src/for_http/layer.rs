//! The layer for HTTP clients: the policy around a service that reads gRPC trailers ahead.

use std::sync::Arc;

use retryguard_policy::{Policy, Service as ServicePolicy};
use tower_layer::Layer;

use super::{Http, Peek};
use crate::{RetryGuard, RetryGuardLayer, handle::TargetHandle};

/// A service for HTTP requests under a policy.
pub type HttpService<S> = RetryGuard<Peek<S>, Http>;

/// Runs a policy around an HTTP or gRPC client.
#[derive(Debug, Clone)]
pub struct HttpLayer {
    guard: RetryGuardLayer<Http>,
}

impl HttpLayer {
    /// The policy of one service, for requests that do not name their client.
    #[must_use]
    pub fn new(policy: &Policy, service: &str) -> Self {
        Self::with(policy.service(service), Http::new())
    }

    /// The same with a protocol that carries a client's name, or reads errors in its own way.
    #[must_use]
    pub fn with(policy: Arc<ServicePolicy>, protocol: Http) -> Self {
        Self {
            guard: RetryGuardLayer::from_service(policy, protocol),
        }
    }

    pub(crate) const fn from_guard(guard: RetryGuardLayer<Http>) -> Self {
        Self { guard }
    }

    /// A handle on the target.
    #[must_use]
    pub fn handle(&self) -> TargetHandle {
        self.guard.handle()
    }
}

impl<S> Layer<S> for HttpLayer {
    type Service = HttpService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.guard.layer(Peek::new(inner))
    }
}
