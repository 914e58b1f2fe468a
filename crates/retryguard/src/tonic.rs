//! tonic's clients under a policy.
//!
//! ```no_run
//! use retryguard::{Policy, http::Http, tonic::TonicLayer};
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

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use retryguard_policy::Policy;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    handle::TargetHandle,
    http::{Http, HttpLayer, HttpService},
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
    type Service = HttpService<TonicBodies<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.http.layer(TonicBodies { inner })
    }
}

/// Hands bodies of any kind to a service that takes tonic's.
#[derive(Debug, Clone)]
pub struct TonicBodies<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for TonicBodies<S>
where
    S: Service<Request<::tonic::body::Body>, Response = Response<B>>,
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
        self.inner.call(request.map(::tonic::body::Body::new))
    }
}
