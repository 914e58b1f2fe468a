//! Requests and their builder.

use std::{pin::Pin, time::Duration};

use http::{HeaderName, HeaderValue, header::HeaderMap};
use retryguard_core::{Criticality, Refusal};
use retryguard_policy::Classifier;

use super::Client;
use crate::{error::Error, for_http::tags::Tags};

/// A request that is sent under the policy. It has the methods of reqwest's builder, and those of the application's own
/// words; what is missing is in [`RequestBuilder::with`].
#[must_use = "a request is sent by `send`"]
#[derive(Debug)]
pub struct RequestBuilder {
    client: Client,
    inner: reqwest::RequestBuilder,
    tags: Tags,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, inner: reqwest::RequestBuilder) -> Self {
        Self {
            client,
            inner,
            tags: Tags::default(),
        }
    }

    /// Changes reqwest's own builder, for what depends on its features:
    /// `.with(|builder| builder.json(&order))`.
    pub fn with(mut self, change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder) -> Self {
        self.inner = change(self.inner);
        self
    }

    /// Adds a header.
    pub fn header<K, V>(self, key: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.with(|builder| builder.header(key, value))
    }

    /// Adds headers, in place of those of the same names.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.with(|builder| builder.headers(headers))
    }

    /// Adds a name and a password.
    pub fn basic_auth(self, name: impl std::fmt::Display, password: Option<impl std::fmt::Display>) -> Self {
        self.with(|builder| builder.basic_auth(name, password))
    }

    /// Adds a token.
    pub fn bearer_auth(self, token: impl std::fmt::Display) -> Self {
        self.with(|builder| builder.bearer_auth(token))
    }

    /// Sets the body. One in memory can be sent again; a stream is sent once.
    pub fn body(self, body: impl Into<reqwest::Body>) -> Self {
        self.with(|builder| builder.body(body))
    }

    /// Sets the version of HTTP.
    pub fn version(self, version: http::Version) -> Self {
        self.with(|builder| builder.version(version))
    }

    /// How long the whole call may take: all attempts, the waits between them and the body. reqwest's own timeout, which
    /// is one attempt's, is the policy's `attemptTimeout`.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.tags.deadline = Some(deadline);
        self
    }

    /// How much the request matters.
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        self.tags.criticality = Some(criticality);
        self
    }

    /// The feature that causes the request; the policy can switch it off.
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.tags.feature = Some(feature.into());
        self
    }

    /// Whether the request is idempotent, where its method does not tell.
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.tags.idempotent = Some(idempotent);
        self
    }

    /// Attempts after the first, in place of the policy's `maxRetries`.
    pub fn max_retries(mut self, retries: u8) -> Self {
        self.tags.max_retries = Some(retries);
        self
    }

    /// How long one attempt may take, in place of the policy's `attemptTimeout`.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.tags.attempt_timeout = Some(timeout);
        self
    }

    /// How the response is read, in place of the policy's rules.
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.tags.classifier = Some(classifier);
        self
    }

    /// The request, to be sent later with [`Client::execute`].
    ///
    /// # Errors
    /// Where the URL, a header or the body is wrong.
    pub fn build(self) -> Result<Tagged, reqwest::Error> {
        Ok(Tagged {
            request: self.inner.build()?,
            tags: self.tags,
        })
    }

    /// Sends the request under the policy.
    ///
    /// # Errors
    /// Where the request is wrong, or no attempt came to a response; the error says which part refused and why.
    pub async fn send(self) -> Result<reqwest::Response, Error<reqwest::Error>> {
        let client = self.client.clone();
        let request = self.build().map_err(|error| Error::Failed {
            error,
            attempts: 0,
            refusal: Refusal::NotRetryable,
            retry_after: None,
            history: Vec::new(),
        })?;
        client.execute(request).await
    }
}

/// Awaiting a builder sends its request.
impl IntoFuture for RequestBuilder {
    type Output = Result<reqwest::Response, Error<reqwest::Error>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A request and what the application says of it.
#[derive(Debug)]
pub struct Tagged {
    /// The request.
    pub request: reqwest::Request,
    /// Its criticality, feature, deadline and idempotency.
    pub tags: Tags,
}

impl From<reqwest::Request> for Tagged {
    fn from(request: reqwest::Request) -> Self {
        Self {
            request,
            tags: Tags::default(),
        }
    }
}
