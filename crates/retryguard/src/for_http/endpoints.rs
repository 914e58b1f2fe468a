//! HTTP and gRPC over several endpoints.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, Uri, uri};
use http_body::Body;
use retryguard_policy::Policy;
use tower_service::Service;

use super::{Http, Peek, PeekBody, ReplayBody};
use crate::{
    RetryGuard,
    client::ResponseFuture,
    endpoints::{EndpointStatus, Endpoints, TooManyEndpoints, Tracking},
    error::{BoxError, BoxedError, Error},
    handle::TargetHandle,
};

/// An HTTP or gRPC client of a service with several endpoints, under a policy. Clones share everything.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use retryguard::{Policy, for_http::{BaseUri, HttpEndpoints, ReplayBody}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client: Client<_, ReplayBody<Full<Bytes>>> = Client::builder(TokioExecutor::new()).build_http();
/// let payments = HttpEndpoints::new(&Policy::default(), "payments");
/// for base in ["http://10.0.0.1:8080", "http://10.0.0.2:8080", "http://10.0.0.3:8080"] {
///     payments.insert(base, BaseUri::new(client.clone(), base.parse()?))?;
/// }
/// // A tower service: `payments.clone().oneshot(request)`.
/// # Ok(())
/// # }
/// ```
pub struct HttpEndpoints<S> {
    endpoints: Endpoints<Peek<S>, Http>,
    service: RetryGuard<Endpoints<Peek<S>, Http>, Tracking<Http>>,
}

impl<S> HttpEndpoints<S> {
    /// No endpoint yet, of a service of the policy.
    #[must_use]
    pub fn new(policy: &Policy, service: &str) -> Self {
        Self::over(Endpoints::new(policy, service, Http::new()))
    }

    /// The same of a target that exists, with a protocol that names the client, or reads errors in its own way.
    #[must_use]
    pub fn with(target: &TargetHandle, protocol: Http) -> Self {
        Self::over(Endpoints::with(target, protocol))
    }

    fn over(endpoints: Endpoints<Peek<S>, Http>) -> Self {
        Self {
            service: endpoints.guarded(),
            endpoints,
        }
    }

    /// Adds an endpoint, which is used at once. One of the same name is replaced, and what was known of it is forgotten.
    ///
    /// # Errors
    /// If there are too many.
    pub fn insert(&self, name: impl Into<Arc<str>>, service: S) -> Result<(), TooManyEndpoints> {
        self.endpoints.insert(name, Peek::new(service))
    }

    /// Removes an endpoint; false if there is none of that name. Attempts that are under way go on.
    pub fn remove(&self, name: &str) -> bool {
        self.endpoints.remove(name)
    }

    /// What the endpoints look like now.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        self.endpoints.status()
    }

    /// A handle on the target.
    #[must_use]
    pub fn handle(&self) -> TargetHandle {
        self.endpoints.handle()
    }
}

impl<S: Clone> Clone for HttpEndpoints<S> {
    fn clone(&self) -> Self {
        Self {
            endpoints: self.endpoints.clone(),
            service: self.service.clone(),
        }
    }
}

impl<S> std::fmt::Debug for HttpEndpoints<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.endpoints, f)
    }
}

impl<S, A, B> Service<Request<A>> for HttpEndpoints<S>
where
    S: Service<Request<ReplayBody<A>>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    A: Body<Data = Bytes>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<PeekBody<B>>;
    type Error = Error<BoxedError>;
    type Future = ResponseFuture<Endpoints<Peek<S>, Http>, Tracking<Http>, Request<A>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<A>>::poll_ready(&mut self.service, cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        self.service.call(request)
    }
}

/// Sends each request to one address: scheme and authority of the request's URI are replaced, and the path of the base is
/// put before that of the request.
#[derive(Debug, Clone)]
pub struct BaseUri<S> {
    inner: S,
    base: Uri,
}

impl<S> BaseUri<S> {
    /// A base such as `http://10.0.0.1:8080` or `https://eu.example.com/payments`.
    pub const fn new(inner: S, base: Uri) -> Self {
        Self { inner, base }
    }
}

impl<S, B> Service<Request<B>> for BaseUri<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(uri) = joined(&self.base, request.uri()) {
            *request.uri_mut() = uri;
        }
        self.inner.call(request)
    }
}

fn joined(base: &Uri, of: &Uri) -> Option<Uri> {
    let mut parts = of.clone().into_parts();
    let base = base.clone().into_parts();
    let before = base.path_and_query.as_ref().map_or("", |path| path.path());
    let before = before.trim_end_matches('/');
    if !before.is_empty() {
        let path = parts
            .path_and_query
            .as_ref()
            .map_or("/", uri::PathAndQuery::as_str);
        let path = format!("{before}{}{path}", if path.starts_with('/') { "" } else { "/" });
        parts.path_and_query = Some(path.parse().ok()?);
    } else if parts.path_and_query.is_none() {
        parts.path_and_query = Some(uri::PathAndQuery::from_static("/"));
    }
    parts.scheme = base.scheme.or(parts.scheme);
    parts.authority = base.authority.or(parts.authority);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_takes_the_place_of_scheme_and_authority() {
        let cases = [
            ("http://a:1", "/x?y=1", "http://a:1/x?y=1"),
            ("http://a:1", "https://payments/x", "http://a:1/x"),
            ("http://a:1/", "http://payments", "http://a:1/"),
            ("https://a/v1/", "http://payments/x", "https://a/v1/x"),
            ("https://a/v1", "http://payments", "https://a/v1/"),
        ];
        for (base, of, expected) in cases {
            let joined = joined(&base.parse().unwrap(), &of.parse().unwrap()).unwrap();
            assert_eq!(joined.to_string(), expected, "{base} and {of}");
        }
    }
}
