//! tonic's clients under a policy.
//!
//! ```no_run
//! use retryguard::{Policy, for_http::Http, for_tonic::TonicLayer};
//! use tower::Layer;
//!
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::default();
//! let channel = tonic::transport::Channel::from_static("http://127.0.0.1:50051").connect().await?;
//! // gRPC sends everything as POST, so the caller says which methods may be done twice.
//! let protocol = Http::new().idempotent_when(|_, path| path.ends_with("/Get"));
//! let channel = TonicLayer::new(&policy, "inventory", protocol).layer(channel);
//! // let client = InventoryClient::new(channel);
//! # drop(channel);
//! # Ok(())
//! # }
//! ```
//!
//! A call without an answer is a `tonic::Status` whose code a gRPC client expects: a passed deadline is
//! `DEADLINE_EXCEEDED`, a full bulkhead `RESOURCE_EXHAUSTED`, and every other refusal, an open breaker among them,
//! `UNAVAILABLE`. Its source is the library's own [`Error`], which says which part refused and how long to stay away:
//!
//! ```
//! # fn tell(status: &tonic::Status) {
//! use std::error::Error as _;
//! type Refused = retryguard::Error<retryguard::BoxedError>;
//! if let Some(error) = status.source().and_then(|source| source.downcast_ref::<Refused>()) {
//!     println!("{:?}, for {:?}", error.refusal(), error.retry_after());
//! }
//! # }
//! ```

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use retryguard_core::Refusal;
use retryguard_policy::Policy;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    client::ResponseFuture,
    error::{BoxError, BoxedError, Error},
    for_http::{Http, HttpLayer, HttpService, Peek, PeekBody, StreamBroke},
    handle::TargetHandle,
};

/// Runs a policy around a tonic channel, or any service that takes tonic's bodies.
#[derive(Debug, Clone)]
pub struct TonicLayer {
    http: HttpLayer,
}

impl TonicLayer {
    /// The policy of one service.
    #[must_use]
    pub fn new(policy: &Policy, service: &str, protocol: Http) -> Self {
        Self {
            http: HttpLayer::with(policy.service(service), protocol),
        }
    }

    /// The same from a layer that follows a live policy.
    #[must_use]
    pub const fn from_layer(http: HttpLayer) -> Self {
        Self { http }
    }

    /// A handle on the target.
    #[must_use]
    pub fn handle(&self) -> TargetHandle {
        self.http.handle()
    }
}

impl<S> Layer<S> for TonicLayer {
    type Service = TonicService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TonicService {
            inner: self.http.layer(TonicBodies { inner }),
        }
    }
}

/// A tonic channel under a policy.
#[derive(Debug, Clone)]
pub struct TonicService<S> {
    inner: HttpService<TonicBodies<S>>,
}

impl<S, A, B> Service<Request<A>> for TonicService<S>
where
    S: Service<Request<tonic::body::Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    A: Body<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<PeekBody<B>>;
    type Error = Status;
    type Future = TonicFuture<ResponseFuture<Peek<TonicBodies<S>>, Http, Request<A>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Service::<Request<A>>::poll_ready(&mut self.inner, cx).map_err(status)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        TonicFuture {
            inner: self.inner.call(request),
        }
    }
}

/// Hands bodies of any kind to a service that takes tonic's.
#[derive(Debug, Clone)]
pub struct TonicBodies<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for TonicBodies<S>
where
    S: Service<Request<tonic::body::Body>, Response = Response<B>>,
    A: Body<Data = Bytes> + Send + 'static,
    A::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> S::Future {
        self.inner.call(request.map(tonic::body::Body::new))
    }
}

pin_project! {
    /// The future of a [`TonicService`].
    pub struct TonicFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, R> Future for TonicFuture<F>
where
    F: Future<Output = Result<R, Error<BoxedError>>>,
{
    type Output = Result<R, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx).map_err(status)
    }
}

/// A call without an answer, in the words of gRPC.
#[cold]
fn status(error: Error<BoxedError>) -> Status {
    let text = error.to_string();
    let mut status = match &error {
        Error::TimedOut { .. }
        | Error::Refused {
            refusal: Refusal::Deadline,
            ..
        } => Status::deadline_exceeded(text),
        Error::Refused {
            refusal: Refusal::BulkheadFull | Refusal::BulkheadTimeout,
            ..
        } => Status::resource_exhausted(text),
        #[cfg(feature = "reqwest")]
        Error::NoTls => Status::unavailable(text),
        Error::Refused { .. } => Status::unavailable(text),
        // tonic's own reading of its transport.
        Error::Failed { error, .. } | Error::NotReady(error) => read(error.get_ref()),
    };
    status.set_source(Arc::new(error));
    status
}

/// tonic reads its own errors only from a box, so they are looked for here; a transport without an answer is unavailable.
fn read(error: &(dyn std::error::Error + 'static)) -> Status {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let answered = error.is::<StreamBroke>();
    for error in chain.take(32) {
        // Of an answer that has begun, the reason of the reset says what happened.
        if answered && let Some(reason) = error.downcast_ref().and_then(h2::Error::reason) {
            return Status::new(code(reason), error.to_string());
        }
        if let Some(status) = error.downcast_ref::<Status>() {
            return Status::with_details_and_metadata(
                status.code(),
                status.message(),
                Bytes::copy_from_slice(status.details()),
                status.metadata().clone(),
            );
        }
        // The channel obeys the `grpc-timeout` that it is told, and may be a moment earlier than our own timer.
        if error.is::<tonic::TimeoutExpired>() {
            return Status::deadline_exceeded(error.to_string());
        }
    }
    Status::unavailable(error.to_string())
}

/// The code for a stream that was reset, by the table of gRPC over HTTP/2.
fn code(reason: h2::Reason) -> Code {
    match reason {
        h2::Reason::REFUSED_STREAM => Code::Unavailable,
        h2::Reason::CANCEL => Code::Cancelled,
        h2::Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        h2::Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        _ => Code::Internal,
    }
}
