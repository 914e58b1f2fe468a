//! The service around a handler.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, Request, Response, header};
use http_body::Body;
use tower_service::Service;

use super::{
    IdempotencyBody, IdempotencyFuture, IdempotencyStore,
    guarded::{self, Guarded},
    in_flight::InFlight,
    key,
    problem::Problem,
    settings::Settings,
    telemetry,
};
use crate::clock;

/// On a response that was stored before: `true`.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What is left of the caller's deadline, in milliseconds; the client layers of `retryguard` send it.
const DEADLINE: HeaderName = HeaderName::from_static("retryguard-deadline-ms");

/// A handler whose requests take effect once.
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    store: Arc<dyn IdempotencyStore>,
    settings: Arc<Settings>,
    in_flight: Arc<InFlight>,
}

impl<S> Idempotency<S> {
    pub(super) fn new(
        inner: S,
        store: Arc<dyn IdempotencyStore>,
        settings: Arc<Settings>,
        in_flight: Arc<InFlight>,
    ) -> Self {
        Self {
            inner,
            store,
            settings,
            in_flight,
        }
    }

    fn counts_for<A>(&self, request: &Request<A>) -> bool {
        self.settings.methods.contains(request.method()) && !is_grpc(request)
    }

    fn left<A>(&self, request: &Request<A>) -> Option<Duration> {
        let theirs = request
            .headers()
            .get(DEADLINE)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.trim().parse().ok())
            .map(Duration::from_millis);
        match (theirs, self.settings.deadline) {
            (Some(theirs), Some(ours)) => Some(theirs.min(ours)),
            (theirs, ours) => theirs.or(ours),
        }
    }
}

/// Its status comes after the body, so a response cannot be judged when it begins.
fn is_grpc<A>(request: &Request<A>) -> bool {
    request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl<S: std::fmt::Debug> std::fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency")
            .field("inner", &self.inner)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<S, A, B> Service<Request<A>> for Idempotency<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    A::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<IdempotencyBody<B>>;
    type Error = S::Error;
    type Future = IdempotencyFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        if !self.counts_for(&request) {
            return IdempotencyFuture::passed(self.inner.call(request));
        }
        let settings = &self.settings;
        let problem = match key::read_key(request.headers(), settings.key_limit, settings.bare) {
            Ok(Some(key)) => {
                let end = self
                    .left(&request)
                    .and_then(|left| clock::now().checked_add(left));
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                let work = Guarded {
                    store: self.store.clone(),
                    settings: settings.clone(),
                    in_flight: self.in_flight.clone(),
                    end,
                };
                return IdempotencyFuture::guarded(
                    |gone| Box::pin(guarded::run(ready, work, request, key, gone)),
                    settings.lock,
                );
            }
            Ok(None) if !settings.required => {
                return IdempotencyFuture::passed(self.inner.call(request));
            }
            Ok(None) => Problem::Missing,
            Err(why) => Problem::Malformed(why),
        };
        telemetry::count(problem.word(), self.store.backend());
        IdempotencyFuture::refused(problem.response(settings.documentation.as_deref()))
    }
}
