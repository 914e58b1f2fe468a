//! A client for `reqwest` under a policy.
//!
//! reqwest has retries of its own, without back-off; two layers of retries multiply. [`Client::new`] makes a
//! client with them switched off. A client that is brought along should be built with
//! `reqwest::retry::never()` too.

use http::HeaderValue;
use retryguard_core::{Outcome, Refusal};
use retryguard_policy::{Classifier, NetworkError, Policy, Service as ServicePolicy};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    RetryGuard, RetryGuardLayer,
    error::Error,
    handle::TargetHandle,
    http::{
        Http, read_request,
        tags::{self, Tags},
    },
    protocol::{Asked, Judge, Protocol, Report, Sending},
};

/// A reqwest client whose requests run under the policy of one service.
#[derive(Debug, Clone)]
pub struct Client {
    service: RetryGuard<::reqwest::Client, Reqwest>,
    inner: ::reqwest::Client,
    handle: TargetHandle,
}

impl Client {
    /// A client of its own, with reqwest's own retries switched off.
    ///
    /// # Errors
    /// Where reqwest cannot be set up, for example without a usable TLS backend.
    pub fn new(policy: &Policy, service: &str) -> Result<Self, ::reqwest::Error> {
        let inner = ::reqwest::Client::builder()
            .retry(::reqwest::retry::never())
            .build()?;
        Ok(Self::with(inner, policy, service, Http::new()))
    }

    /// A client that is brought along, and a protocol that says who asks.
    #[must_use]
    pub fn with(inner: ::reqwest::Client, policy: &Policy, service: &str, protocol: Http) -> Self {
        Self::from_layer(
            inner,
            &RetryGuardLayer::new(policy, service, Reqwest { http: protocol }),
        )
    }

    /// A client under a layer that is shared with others.
    #[must_use]
    pub fn from_layer(inner: ::reqwest::Client, layer: &RetryGuardLayer<Reqwest>) -> Self {
        Self {
            service: layer.layer(inner.clone()),
            inner,
            handle: layer.handle(),
        }
    }

    /// A handle on the target.
    #[must_use]
    pub const fn handle(&self) -> &TargetHandle {
        &self.handle
    }

    /// Begins a request, as reqwest does. Build it and hand it to [`Client::execute`].
    pub fn request(
        &self,
        method: ::reqwest::Method,
        url: impl ::reqwest::IntoUrl,
    ) -> ::reqwest::RequestBuilder {
        self.inner.request(method, url)
    }

    /// Gets an address.
    ///
    /// # Errors
    /// As [`Client::execute`].
    pub async fn get(
        &self,
        url: impl ::reqwest::IntoUrl,
    ) -> Result<::reqwest::Response, Error<::reqwest::Error>> {
        let request = self.inner.get(url).build().map_err(|error| Error::Failed {
            error,
            attempts: 0,
            refusal: Refusal::NotRetryable,
            retry_after: None,
        })?;
        self.execute(request).await
    }

    /// Sends a request under the policy.
    ///
    /// # Errors
    /// Where no attempt came to a response; the error says which part refused and why.
    pub async fn execute(
        &self,
        request: impl Into<Tagged>,
    ) -> Result<::reqwest::Response, Error<::reqwest::Error>> {
        // A reqwest client is always ready, so a clone needs no polling.
        self.service.clone().call(request.into()).await
    }
}

/// A request and what the application says of it.
#[derive(Debug)]
pub struct Tagged {
    /// The request.
    pub request: ::reqwest::Request,
    /// Its criticality, feature, deadline and idempotency.
    pub tags: Tags,
}

impl From<::reqwest::Request> for Tagged {
    fn from(request: ::reqwest::Request) -> Self {
        Self {
            request,
            tags: Tags::default(),
        }
    }
}

/// The protocol of reqwest's requests.
#[derive(Debug, Clone, Default)]
pub struct Reqwest {
    http: Http,
}

impl Reqwest {
    /// With a protocol that says who asks.
    #[must_use]
    pub const fn new(http: Http) -> Self {
        Self { http }
    }
}

/// What is kept of a request: the request itself, until a body that cannot be cloned is sent.
pub struct Kept {
    request: Option<::reqwest::Request>,
    replayable: bool,
    feature: Option<HeaderValue>,
}

impl Protocol<Tagged> for Reqwest {
    type Kept = Kept;
    type Attempt = ::reqwest::Request;

    fn accept(&self, tagged: Tagged, policy: &ServicePolicy) -> (Asked, Kept) {
        let Tagged { mut request, tags } = tagged;
        let method = request.method().clone();
        let by_hand = self.http.is_idempotent(&method, request.url().path());
        let (asked, feature) = read_request(&method, request.headers_mut(), Some(&tags), by_hand, policy);
        let replayable = match request.body() {
            None => true,
            // A body in memory is cloned by counting; one that streams has no bytes to show.
            Some(body) => body
                .as_bytes()
                .is_some_and(|bytes| bytes.len() <= policy.replay_limit),
        };
        (
            Asked { replayable, ..asked },
            Kept {
                request: Some(request),
                replayable,
                feature,
            },
        )
    }

    fn attempt(&self, kept: &mut Kept, sending: &Sending) -> Option<::reqwest::Request> {
        let mut request = if kept.replayable {
            kept.request.as_ref()?.try_clone()?
        } else {
            kept.request.take()?
        };
        self.http
            .write_tags(request.headers_mut(), kept.feature.as_ref(), sending);
        Some(request)
    }

    fn can_replay(&self, kept: &Kept) -> bool {
        kept.replayable
    }
}

impl Judge<::reqwest::Response, ::reqwest::Error> for Reqwest {
    fn judge(
        &self,
        result: &Result<::reqwest::Response, ::reqwest::Error>,
        classifier: &Classifier,
    ) -> Outcome {
        match result {
            Ok(response) if response.status().as_u16() < 400 => Outcome::Success,
            Ok(response) => classifier.http(response.status().as_u16(), tags::read_hints(response.headers())),
            Err(error) if error.is_connect() => classifier.network(NetworkError::Connect),
            Err(error) if error.is_timeout() => classifier.network(NetworkError::Timeout),
            Err(error) => self.http.network(error, classifier),
        }
    }

    fn conclude(&self, response: &mut ::reqwest::Response, report: &Report) {
        response.extensions_mut().insert(*report);
    }
}
