//! Several base URLs of one service.

use std::task::{Context, Poll};

use reqwest::Url;
use tower_service::Service;

use super::{
    Client,
    redirects::{AttemptError, Following, FollowingFuture},
};
use crate::{
    endpoints::{EndpointStatus, TooManyEndpoints},
    tls,
};

/// A client that sends each request to one address.
#[derive(Debug, Clone)]
pub(super) struct Based {
    pub(super) client: Following,
    pub(super) base: Url,
}

impl Service<reqwest::Request> for Based {
    type Response = reqwest::Response;
    type Error = AttemptError;
    type Future = FollowingFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AttemptError>> {
        self.client.poll_ready(cx)
    }

    fn call(&mut self, mut request: reqwest::Request) -> FollowingFuture {
        let url = joined(&self.base, request.url());
        *request.url_mut() = url;
        self.client.call(request)
    }
}

/// Scheme, host and port of the base; its path before that of the request.
fn joined(base: &Url, of: &Url) -> Url {
    let mut url = base.clone();
    let before = base.path().trim_end_matches('/');
    url.set_path(&format!("{before}{}", of.path()));
    url.set_query(of.query());
    url.set_fragment(None);
    url
}

/// Why a client has no such endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is not a URL with a host.
    #[error("`{0}` is not a base URL; write one such as http://10.0.0.1:8080")]
    NotABase(String),
    /// It has a name or a password. The base is the endpoint's name in metrics, events and `Debug`, and reqwest would not send them.
    #[error(
        "a base URL has no user name and no password; send them as a header of each request, for example with `basic_auth`"
    )]
    Credentials,
    /// It is one of `https`, and this program's reqwest has no TLS.
    #[error("the endpoint is https and {}", tls::advice!())]
    NoTls,
    /// The client sends requests to the address that they name.
    #[error("the client has no endpoints; make it with `Client::with_endpoints`")]
    OneAddress,
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] TooManyEndpoints),
    /// reqwest cannot be set up, for example without a usable TLS backend.
    #[error("reqwest cannot be set up")]
    Setup(#[from] reqwest::Error),
}

/// Endpoints of a client that was made by [`Client::with_endpoints`].
impl Client {
    /// Adds an endpoint by its base URL, which is used at once.
    ///
    /// # Errors
    /// If it is not a URL with a host, if it has a user name or a password, if it needs TLS that is not there, if there are too many, or if the client was not made for endpoints.
    pub fn insert_endpoint(&self, base: &str) -> Result<(), EndpointError> {
        let not_a_base = || EndpointError::NotABase(base.to_owned());
        let url: Url = base.parse().map_err(|_| not_a_base())?;
        if !url.has_host() {
            return Err(not_a_base());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        if tls::is_missing_for(&url) {
            return Err(EndpointError::NoTls);
        }
        let endpoints = self.several().ok_or(EndpointError::OneAddress)?;
        // Made by `Client::new`, whose redirect policy is ours.
        let client = Following {
            client: self.inner.clone(),
            reports: true,
        };
        endpoints.insert(base, Based { client, base: url })?;
        Ok(())
    }

    /// Removes an endpoint by the base URL that was given for it; false if there is none.
    pub fn remove_endpoint(&self, base: &str) -> bool {
        self.several().is_some_and(|endpoints| endpoints.remove(base))
    }

    /// What the endpoints look like now; empty for a client of no endpoints.
    #[must_use]
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.several()
            .map(crate::endpoints::Endpoints::status)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_takes_the_place_of_the_address() {
        let cases = [
            ("http://a:1", "https://payments/x?y=1", "http://a:1/x?y=1"),
            ("https://a/v1/", "http://payments:9/x#z", "https://a/v1/x"),
            ("https://a/v1", "http://payments", "https://a/v1/"),
        ];
        for (base, of, expected) in cases {
            let joined = joined(&base.parse().unwrap(), &of.parse().unwrap());
            assert_eq!(joined.as_str(), expected, "{base} and {of}");
        }
    }
}
