//! QuerySender over HTTP: a bounded answer, in bounded time, with a token that is never shown.

use std::{path::Path, sync::Arc};

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use reqwest::Url;
use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::adapters::causes::chain;
use crate::adapters::http::tls::certificates;
use crate::adapters::start_error::StartError;
use crate::reconcile::source::SourceError;
use crate::secret::Secret;

/// The largest answer that is read. A busy Envoy's page has a few MiB.
pub(crate) const LARGEST_ANSWER: usize = 32 * 1024 * 1024;

/// The longest excerpt of another server's error that is repeated.
const LONGEST_REASON: usize = 300;

/// A client for one source. It follows no redirect: a source that sends us elsewhere could be sent the token.
/// How long an answer may take is the caller's to say.
pub(crate) struct Fetch {
    client: Client<HttpsConnector<HttpConnector>, Empty<&'static [u8]>>,
    token: Option<Secret>,
}

/// What a client needs beyond an address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access<'a> {
    /// The file with a bearer token.
    pub(crate) token_file: Option<&'a Path>,
    /// The certificates that are trusted, as PEM; those of the machine where there is none.
    pub(crate) ca_file: Option<&'a Path>,
}

impl Fetch {
    pub(crate) fn new(what: &'static str, access: Access<'_>) -> Result<Self, StartError> {
        let unusable = |path: &Path, reason: String| StartError::File {
            what,
            path: path.display().to_string(),
            reason,
        };
        let token = match access.token_file {
            None => None,
            Some(path) => Some(Secret::from_file(path).map_err(|error| unusable(path, error.to_string()))?),
        };
        let builder = HttpsConnectorBuilder::new();
        let builder = match access.ca_file {
            None => builder
                .with_provider_and_native_roots(ring::default_provider())
                .map_err(|error| StartError::Settings {
                    what,
                    reason: format!("no certificates to trust on this machine: {error}"),
                })?,
            Some(path) => {
                let config = trusting(path).map_err(|reason| unusable(path, reason))?;
                builder.with_tls_config(config)
            }
        };
        let connector = builder.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, token })
    }

    /// The answer's status and text; an error where there is none, it is too long, or access is refused.
    pub(crate) async fn get(&self, url: Url) -> Result<(StatusCode, String), SourceError> {
        let address = shown(&url);
        let nonsense = |reason: String| SourceError::Nonsense {
            address: address.clone(),
            reason,
        };
        let mut request = Request::get(url.as_str());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        // The builder's own words could repeat the token.
        let request = request
            .body(Empty::new())
            .map_err(|_| nonsense("an address or a token that HTTP cannot carry".to_owned()))?;
        let unreachable = |error: &dyn std::error::Error| SourceError::Unreachable {
            address: address.clone(),
            reason: excerpt(&chain(error)),
        };
        let answer = self
            .client
            .request(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let status = answer.status();
        let bytes = match Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(nonsense(format!("an answer of more than {LARGEST_ANSWER} bytes")));
            }
            Err(error) => return Err(unreachable(&*error)),
        };
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(SourceError::Refused {
                address,
                reason: format!("{status}; check `tokenFile`"),
            });
        }
        let text =
            String::from_utf8(bytes.into()).map_err(|_| nonsense("an answer that is not text".to_owned()))?;
        Ok((status, self.without_token(text)))
    }

    /// A server that answers with the request it got repeats the token, and answers are quoted in errors.
    fn without_token(&self, text: String) -> String {
        match &self.token {
            Some(token) if text.contains(token.reveal()) => text.replace(token.reveal(), "…"),
            _ => text,
        }
    }
}

/// TLS that trusts the certificates of a file, and no others.
fn trusting(path: &Path) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// An address without its query: that is long, and the same in every line of the log.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// Another server's words, on one line and clipped.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars()
        .take(LONGEST_REASON)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}
