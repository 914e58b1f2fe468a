//! A client for `reqwest` under a policy.
//!
//! ```no_run
//! # async fn order() -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard::{Policy, for_reqwest::Client};
//!
//! let policy = Policy::parse("services: { payments: { maxRetries: 1 } }")?;
//! let client = Client::new(&policy, "payments")?;
//! let response = client.post("http://payments/charges").body("…").send().await?;
//! # Ok(())
//! # }
//! ```
//!
//! reqwest has retries of its own, without back-off; two layers of retries multiply. [`Client::new`] makes a
//! client with them switched off, and [`Client::with_builder`] does so for other settings of reqwest:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard::{Policy, for_http::Http, for_reqwest::Client};
//!
//! let builder = reqwest::Client::builder().user_agent("shop/2");
//! let client = Client::with_builder(builder, &Policy::default(), "payments", Http::new())?;
//! # Ok(())
//! # }
//! ```
//!
//! An existing client should be built with `reqwest::retry::never()` and [`redirects`] too; see
//! [`Client::reports_redirects`].
//!
//! # TLS
//!
//! The feature `rustls` switches reqwest's TLS on, as reqwest's own feature of this name does; with `rustls-no-provider` the
//! program installs a provider of cryptography before it makes a client. Another TLS is chosen beside this crate, because Cargo
//! builds reqwest once with the features of all: `reqwest = { version = "0.13", default-features = false, features =
//! ["native-tls"] }`. Without any, a request to an `https` URL ends with [`Error::NoTls`], and nothing is sent.

mod endpoints;
mod protocol;
mod redirects;
mod request;

use http::response;
use retryguard_policy::Policy;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    RetryGuard, RetryGuardLayer, clock, context,
    endpoints::{Endpoints, Tracking},
    error::Error,
    for_http::{Http, Patience, PatientBody, tags::Received},
    handle::TargetHandle,
    tls,
};

pub use endpoints::EndpointError;
pub use protocol::{Kept, Reqwest};
pub use redirects::redirects;
pub use request::{RequestBuilder, Tagged};

use endpoints::Based;
use redirects::Following;

/// A reqwest client whose requests run under the policy of one service.
#[derive(Debug, Clone)]
pub struct Client {
    service: Kind,
    inner: reqwest::Client,
    handle: TargetHandle,
}

/// Where requests go.
#[derive(Debug, Clone)]
enum Kind {
    /// To the address that they name.
    One(RetryGuard<Following, Reqwest>),
    /// To one of several base URLs.
    Several {
        endpoints: Endpoints<Based, Reqwest>,
        service: RetryGuard<Endpoints<Based, Reqwest>, Tracking<Reqwest>>,
    },
}

impl Client {
    /// A client of its own, with reqwest's own retries switched off.
    ///
    /// # Errors
    /// Where reqwest cannot be set up, for example without a usable TLS backend.
    pub fn new(policy: &Policy, service: &str) -> Result<Self, reqwest::Error> {
        Self::with_builder(reqwest::Client::builder(), policy, service, Http::new())
    }

    /// A client with settings of reqwest, and a protocol that names it in its requests. Its redirect policy becomes [`redirects`], and its
    /// own retries are switched off.
    ///
    /// # Errors
    /// Where reqwest cannot be set up, for example without a usable TLS backend.
    pub fn with_builder(
        builder: reqwest::ClientBuilder,
        policy: &Policy,
        service: &str,
        protocol: Http,
    ) -> Result<Self, reqwest::Error> {
        let inner = builder
            .retry(reqwest::retry::never())
            .redirect(redirects())
            .build()?;
        Ok(Self::with(inner, policy, service, protocol).reports_redirects())
    }

    /// An existing client, and a protocol that names it in its requests. A request of it that must not be done twice is not sent
    /// again where no connection came about: see [`Client::reports_redirects`].
    #[must_use]
    pub fn with(inner: reqwest::Client, policy: &Policy, service: &str, protocol: Http) -> Self {
        Self::from_layer(
            inner,
            &RetryGuardLayer::new(policy, service, Reqwest::new(protocol)),
        )
    }

    /// A client under a layer that is shared with others.
    #[must_use]
    pub fn from_layer(inner: reqwest::Client, layer: &RetryGuardLayer<Reqwest>) -> Self {
        Self {
            service: Kind::One(layer.layer(Following {
                client: inner.clone(),
                reports: false,
            })),
            inner,
            handle: layer.handle(),
        }
    }

    /// Says that an existing client was built with [`redirects`], or with a redirect policy that follows none. A
    /// failed connection then proves that a request was not processed, so that it is sent again whatever its method. Without
    /// this the failed connection may be that of a redirect, whose server has processed the request.
    #[must_use]
    pub fn reports_redirects(mut self) -> Self {
        if let Kind::One(service) = &mut self.service {
            service.inner_mut().reports = true;
        }
        self
    }

    /// A client of one service at several base URLs. Scheme, host and port of each request are replaced by those of an
    /// endpoint, and the base's path is put before that of the request: `client.get("http://payments/charges")` goes to
    /// `http://10.0.0.1:8080/charges` or to another one. See [`endpoints`](crate::endpoints) for the rules.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use retryguard::{Policy, for_reqwest::Client};
    ///
    /// let bases = ["http://10.0.0.1:8080", "http://10.0.0.2:8080"];
    /// let payments = Client::with_endpoints(&Policy::default(), "payments", &bases)?;
    /// payments.insert_endpoint("http://10.0.0.3:8080")?;
    /// payments.remove_endpoint("http://10.0.0.1:8080");
    /// assert!(payments.endpoints().iter().all(|endpoint| endpoint.is_in()));
    /// assert!(payments.insert_endpoint("payments").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If reqwest cannot be set up, or if a base is not a URL with a host.
    pub fn with_endpoints(policy: &Policy, service: &str, bases: &[&str]) -> Result<Self, EndpointError> {
        let one = Self::new(policy, service)?;
        let endpoints = Endpoints::with(&one.handle, Reqwest::new(Http::new()));
        let client = Self {
            service: Kind::Several {
                service: endpoints.guarded(),
                endpoints,
            },
            ..one
        };
        for base in bases {
            client.insert_endpoint(base)?;
        }
        Ok(client)
    }

    fn several(&self) -> Option<&Endpoints<Based, Reqwest>> {
        match &self.service {
            Kind::One(_) => None,
            Kind::Several { endpoints, .. } => Some(endpoints),
        }
    }

    /// A handle on the target.
    #[must_use]
    pub const fn handle(&self) -> &TargetHandle {
        &self.handle
    }

    /// Begins a request. It is sent under the policy by [`RequestBuilder::send`].
    pub fn request(&self, method: reqwest::Method, url: impl reqwest::IntoUrl) -> RequestBuilder {
        RequestBuilder::new(self.clone(), self.inner.request(method, url))
    }

    /// Begins a GET.
    pub fn get(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::GET, url)
    }

    /// Begins a POST.
    pub fn post(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::POST, url)
    }

    /// Begins a PUT.
    pub fn put(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::PUT, url)
    }

    /// Begins a PATCH.
    pub fn patch(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::PATCH, url)
    }

    /// Begins a DELETE.
    pub fn delete(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::DELETE, url)
    }

    /// Begins a HEAD.
    pub fn head(&self, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.request(reqwest::Method::HEAD, url)
    }

    /// Sends a request under the policy.
    ///
    /// # Errors
    /// Where no attempt came to a response; the error says which part refused and why.
    pub async fn execute(
        &self,
        request: impl Into<Tagged>,
    ) -> Result<reqwest::Response, Error<reqwest::Error>> {
        let request = request.into();
        // A client of several endpoints replaces the scheme, and has checked theirs.
        if matches!(self.service, Kind::One(_)) && tls::is_missing_for(request.request.url()) {
            return Err(Error::NoTls);
        }
        let until = until(&request);
        // A reqwest client is always ready, so a clone needs no polling.
        let (pause, response) = match &self.service {
            Kind::One(service) => {
                let mut service = service.clone();
                let response = service.call(request);
                (service.policy().body_timeout, response.await)
            }
            Kind::Several { service, .. } => {
                let mut service = service.clone();
                let response = service.call(request);
                (service.policy().body_timeout, response.await)
            }
        };
        let response = response.map_err(|error| without_tls(error.map(|attempt| attempt.error)))?;
        Ok(bounded(response, Patience::new(pause, until)))
    }
}

/// A redirect to `https` that could not be followed says so.
fn without_tls(error: Error<reqwest::Error>) -> Error<reqwest::Error> {
    match error {
        Error::Failed { error, .. } if tls::is_missing_for_redirect(&error) => Error::NoTls,
        error => error,
    }
}

/// When the caller itself wants nothing any more: by the request's own words, or those of the request that is served.
fn until(tagged: &Tagged) -> Option<tokio::time::Instant> {
    let own = [tagged.tags.deadline, Received::left(tagged.request.headers())];
    let own = own.into_iter().flatten().min().map(clock::after);
    let above = context::inherited().and_then(|(deadline, _)| deadline);
    own.into_iter().chain(above).min()
}

/// A response whose body does not take longer than its reader waits.
fn bounded(response: reqwest::Response, patience: Patience) -> reqwest::Response {
    use reqwest::ResponseBuilderExt;
    if patience == Patience::NONE {
        return response;
    }
    // reqwest keeps the address beside the response, and takes it back from a builder only.
    let url = response::Builder::new().url(response.url().clone()).body(());
    let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    if let Ok(url) = url {
        parts.extensions.extend(url.into_parts().0.extensions);
    }
    let body = reqwest::Body::wrap(PatientBody::new(body, patience));
    http::Response::from_parts(parts, body).into()
}
