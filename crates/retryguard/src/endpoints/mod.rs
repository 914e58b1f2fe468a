//! Several endpoints of one service: replicas, zones, base URLs.
//!
//! [`Endpoints`] holds a tower service for each endpoint and sits below the retries. Each attempt goes to the less busy of
//! two endpoints, a retry goes to an endpoint that its call has not tried, and an endpoint that fails far more than the
//! others is left out for a while (the policy's section `endpoints`). The rules are those of
//! [`retryguard_core::endpoints`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard::{Policy, endpoints::Endpoints, protocol::Plain};
//! use tower::{ServiceExt, service_fn, util::BoxCloneService};
//!
//! let policy = Policy::parse("services: { stock: { initialDelay: 1ms } }")?;
//! let stock = Endpoints::new(&policy, "stock", Plain::idempotent());
//! let broken = service_fn(|_: u32| async { Err::<u32, _>(std::io::Error::other("broken")) });
//! let well = service_fn(|item: u32| async move { Ok::<_, std::io::Error>(item + 1) });
//! stock.insert("a", BoxCloneService::new(well))?;
//! for item in 0..100 {
//!     assert_eq!(stock.guarded().oneshot(item).await?, item + 1);
//! }
//! // Endpoints come and go while calls are under way.
//! stock.insert("b", BoxCloneService::new(broken))?;
//! // What fails at `b` is sent to `a`, as far as guard and budget allow retries.
//! for item in 0..100 {
//!     let _ = stock.guarded().oneshot(item).await;
//! }
//! // And after a few failures nothing is sent to `b` but trial attempts.
//! let status = stock.status();
//! assert!(status[1].failure_share > 0.9 && !status[1].is_in());
//! stock.remove("b");
//! # Ok(())
//! # }
//! ```
//!
//! For HTTP and gRPC there is [`HttpEndpoints`](crate::for_http::HttpEndpoints), for reqwest `for_reqwest::Client::with_endpoints`.
//!
//! An attempt counts as under way until its response has come, not until the response's body has ended. While there is no
//! endpoint at all, attempts wait for one, as long as their call's deadline allows.

mod future;
mod state;
mod tracking;

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use retryguard_core::endpoints::State as EndpointState;
use retryguard_policy::Policy;
use tower_layer::Layer;
use tower_service::Service;

pub use future::EndpointFuture;
pub use tracking::{KeptTracked, Tracked, Tracking};

use crate::{RetryGuard, RetryGuardLayer, handle::TargetHandle, protocol::Judge};
use state::Shared;

/// The endpoints of one service. Clones share them.
pub struct Endpoints<S, P> {
    shared: Arc<Shared<S>>,
    protocol: P,
}

/// There are as many endpoints as one service may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the service has {} endpoints already; remove one first, or give the service a load balancer",
    retryguard_core::endpoints::Endpoints::MOST
)]
pub struct TooManyEndpoints;

/// What one endpoint looks like.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EndpointStatus {
    /// Its name.
    pub name: Arc<str>,
    /// How long it is still left out; zero while single attempts try it, `None` if it is used.
    pub out_for: Option<Duration>,
    /// Attempts under way.
    pub under_way: u32,
    /// The share of its recent attempts that failed; kept while it is left out.
    pub failure_share: f64,
}

impl EndpointStatus {
    /// Whether the endpoint is used.
    #[must_use]
    pub const fn is_in(&self) -> bool {
        self.out_for.is_none()
    }
}

impl<S, P: Clone> Endpoints<S, P> {
    /// No endpoint yet, of a service of the policy. The target is shared with the layers of the same policy and service.
    pub fn new(policy: &Policy, service: &str, protocol: P) -> Self {
        let layer = RetryGuardLayer::new(policy, service, ());
        Self::with(&layer.handle(), protocol)
    }

    /// No endpoint yet, of a target that exists, such as one of a [`LivePolicy`](crate::remote::LivePolicy).
    pub fn with(target: &TargetHandle, protocol: P) -> Self {
        Self {
            shared: Arc::new(Shared::new(target.shared())),
            protocol,
        }
    }

    /// The service to call: retries, breaker and all other parts of the policy around these endpoints.
    pub fn guarded(&self) -> RetryGuard<Self, Tracking<P>> {
        let protocol = Tracking::new(self.protocol.clone());
        RetryGuardLayer::from_shared(self.shared.target.clone(), protocol).layer(self.clone())
    }
}

impl<S, P> Endpoints<S, P> {
    /// Adds an endpoint, which is used at once. One of the same name is replaced, and what was known of it is forgotten.
    ///
    /// # Errors
    /// If there are too many.
    pub fn insert(&self, name: impl Into<Arc<str>>, service: S) -> Result<(), TooManyEndpoints> {
        self.shared.insert(name.into(), service)
    }

    /// Removes an endpoint; false if there is none of that name. Attempts that are under way go on.
    pub fn remove(&self, name: &str) -> bool {
        self.shared.remove(name)
    }

    /// What the endpoints look like now, in the order in which they were added.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        let now = self.shared.target.clock.now();
        let of = |name: Arc<str>, status: retryguard_core::endpoints::Status| EndpointStatus {
            name,
            out_for: match status.state {
                EndpointState::In => None,
                EndpointState::Out { until } => Some(now.until(until)),
                EndpointState::Trial => Some(Duration::ZERO),
            },
            under_way: status.under_way,
            failure_share: status.failure_share,
        };
        self.shared.status(now, of)
    }

    /// A handle on the target.
    #[must_use]
    pub fn handle(&self) -> TargetHandle {
        TargetHandle::new(self.shared.target.clone())
    }
}

impl<S, P: Clone> Clone for Endpoints<S, P> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            protocol: self.protocol.clone(),
        }
    }
}

impl<S, P> std::fmt::Debug for Endpoints<S, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints")
            .field("target", &self.shared.target.name())
            .finish_non_exhaustive()
    }
}

impl<S, P, R> Service<Tracked<R>> for Endpoints<S, P>
where
    S: Service<R> + Clone,
    P: Judge<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = EndpointFuture<S, P, R>;

    /// Always ready: which endpoint must be ready is known only with the attempt.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, attempt: Tracked<R>) -> Self::Future {
        EndpointFuture::new(self.shared.clone(), self.protocol.clone(), attempt)
    }
}
