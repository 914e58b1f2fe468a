//! The service of a server.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use retryguard_core::shed::Arrival;
use tower_service::Service;

use super::{
    ServerBody, ServerFuture,
    future::Manner,
    refuse::Answer,
    shared::{Rules, Shared},
    trust::{self, Mapping},
};
use crate::{clock, context, error::BoxError, for_http::tags::Seen};

/// A server under a policy.
#[derive(Clone)]
pub struct ServerGuard<S> {
    inner: S,
    shared: Arc<Shared>,
    mapping: Option<Mapping>,
    rules: Arc<Rules>,
    version: u32,
}

impl<S> ServerGuard<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, mapping: Option<Mapping>) -> Self {
        let (version, rules) = shared.rules();
        Self {
            inner,
            shared,
            mapping,
            rules,
            version,
        }
    }
}

impl<S> std::fmt::Debug for ServerGuard<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerGuard")
            .field("service", &self.shared.name())
            .finish_non_exhaustive()
    }
}

impl<S, A, B> Service<Request<A>> for ServerGuard<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<ServerBody<B>>;
    type Error = S::Error;
    type Future = ServerFuture<S, A>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        if self.version != self.shared.version() {
            (self.version, self.rules) = self.shared.rules();
        }
        let Seen { tags, grpc } = Seen::of(request.headers());
        let received = trust::read(&mut request, tags, self.rules.trust, self.mapping.as_ref());
        let left = trust::earlier(received.left, self.rules.deadline);
        if left.is_some_and(|left| left.is_zero()) {
            self.shared.count_shed("deadline", received.criticality);
            return ServerFuture::refused(Answer::TooLate, grpc);
        }
        let arrival = Arrival {
            criticality: received.criticality,
            again: received.again(),
        };
        let inside = if self.rules.exempts(|| request.uri().path()) {
            None
        } else {
            match self.shared.admit(arrival) {
                Ok(inside) => Some(inside),
                Err(refused) => {
                    self.shared
                        .count_shed(refused.reason.as_str(), received.criticality);
                    return ServerFuture::refused(Answer::Overloaded(refused), grpc);
                }
            }
        };
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        let deadline = left.map(clock::after);
        let body_left = received.call_left.or(received.left);
        let body_until = trust::earlier(body_left, self.rules.deadline).map(clock::after);
        let context = context::Context::new(deadline, received.criticality);
        ServerFuture::admitted(
            inside,
            context,
            ready,
            request,
            Manner {
                grpc,
                holds_bodies: self.rules.holds_bodies,
                full_timeout: self.rules.full_timeout,
                body_until,
            },
        )
    }
}
