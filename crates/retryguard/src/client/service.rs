//! The service: accepts a request, starts its call, and leaves the rest to the future.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use retryguard_core::{Deadline, Refusal, bulkhead::Ticket, call::Facts};
use retryguard_policy::Service as ServicePolicy;
use tower_service::Service;

use super::{ResponseFuture, future::Start};
use crate::{
    clock::Clock,
    context,
    error::Error,
    protocol::{Asked, Judge, Protocol},
    shared::Shared,
};

/// A service under a policy.
pub struct RetryGuard<S, P> {
    inner: S,
    protocol: P,
    shared: Arc<Shared>,
    policy: Arc<ServicePolicy>,
    version: u32,
}

impl<S, P> RetryGuard<S, P> {
    pub(super) fn new(inner: S, protocol: P, shared: Arc<Shared>) -> Self {
        let (version, policy) = shared.policy();
        Self {
            inner,
            protocol,
            shared,
            policy,
            version,
        }
    }

    /// The policy that the last call was read by.
    #[cfg(feature = "reqwest")]
    pub(crate) fn policy(&self) -> &ServicePolicy {
        &self.policy
    }

    /// The service below.
    #[cfg(feature = "reqwest")]
    pub(crate) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The policy in force. One load tells whether the copy at hand is old, so that requests are read
    /// without the lock.
    #[inline]
    fn refresh(&mut self) {
        if self.version != self.shared.version() {
            (self.version, self.policy) = self.shared.policy();
        }
    }
}

impl<S: Clone, P: Clone> Clone for RetryGuard<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            protocol: self.protocol.clone(),
            shared: self.shared.clone(),
            policy: self.policy.clone(),
            version: self.version,
        }
    }
}

impl<S, P> std::fmt::Debug for RetryGuard<S, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryGuard")
            .field("target", &self.shared.name())
            .finish_non_exhaustive()
    }
}

impl<S, P, Request> Service<Request> for RetryGuard<S, P>
where
    P: Protocol<Request> + Judge<S::Response, S::Error> + Clone,
    S: Service<P::Attempt> + Clone,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = ResponseFuture<S, P, Request>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Error::NotReady)
    }

    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        self.refresh();
        let (asked, kept) = self.protocol.accept(request, &self.policy);
        // The service that was found ready makes the first attempt; the clone must be found ready again.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        let (facts, inherits) = facts(&asked, &self.policy, &self.shared.clock);
        let within_request = inherits || self.protocol.context(&kept).is_some();
        // Built where it is returned, and begun in its first poll, when it no longer moves: a future of some
        // hundred bytes that is begun here would be copied with every call.
        ResponseFuture::new(
            &facts,
            asked.overrides,
            asked.feature_off.then_some(Refusal::FeatureOff),
            Start {
                ready,
                kept,
                protocol: self.protocol.clone(),
                shared: self.shared.clone(),
                within_request,
            },
        )
    }
}

/// What a request asks for, what its task inherits, and what the policy says, in this order; and whether its task
/// inherits anything, which it does while it serves a request.
#[inline]
fn facts(asked: &Asked, policy: &ServicePolicy, clock: &Clock) -> (Facts, bool) {
    let inherited = context::inherited();
    let at = |deadline: Option<tokio::time::Instant>| {
        deadline.map_or(Deadline::NONE, |deadline| Deadline::at(clock.instant(deadline)))
    };
    let (above, criticality) = match inherited {
        Some((deadline, criticality)) => (at(deadline), criticality),
        None => (Deadline::NONE, policy.criticality),
    };
    let facts = Facts {
        deadline: at(asked.deadline).earlier(above),
        criticality: asked.criticality.unwrap_or(criticality),
        idempotent: asked.idempotent,
        replayable: asked.replayable,
        ticket: Ticket(0),
    };
    (facts, inherited.is_some())
}
