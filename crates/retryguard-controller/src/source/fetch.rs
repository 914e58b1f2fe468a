//! Asking over HTTP: a bounded answer, in bounded time, with a token that is never shown.

use std::{path::Path, sync::Once, time::Duration};

use reqwest::{Client, StatusCode, Url, header};

use super::SourceError;
use crate::{secret::Secret, start::StartError};

/// The largest answer that is read. A busy Envoy's page has a few MiB.
pub(crate) const LARGEST_ANSWER: usize = 32 * 1024 * 1024;

/// The longest excerpt of somebody else's error that is repeated.
const LONGEST_REASON: usize = 300;

/// A client for one source.
pub(crate) struct Fetch {
    client: Client,
    token: Option<Secret>,
}

impl Fetch {
    pub(crate) fn new(what: &'static str, token_file: Option<&Path>) -> Result<Self, StartError> {
        let token = match token_file {
            None => None,
            Some(path) => Some(Secret::from_file(path).map_err(|error| StartError::File {
                what,
                path: path.display().to_string(),
                reason: error.to_string(),
            })?),
        };
        choose_tls();
        let client = Client::builder()
            .retry(reqwest::retry::never())
            // A source that sends us elsewhere could be sent the token.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(3))
            .no_proxy()
            .build()
            .map_err(|error| StartError::Settings {
                what,
                reason: error.to_string(),
            })?;
        Ok(Self { client, token })
    }

    /// The answer's status and text; an error where there is none, it is too long, or access is refused.
    pub(crate) async fn get(&self, url: Url) -> Result<(StatusCode, String), SourceError> {
        let address = shown(&url);
        let mut request = self.client.get(url);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        let unreachable = |error: reqwest::Error| SourceError::Unreachable {
            address: address.clone(),
            reason: chain(&error.without_url()),
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > LARGEST_ANSWER {
                return Err(SourceError::Nonsense {
                    address,
                    reason: format!("an answer of more than {LARGEST_ANSWER} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(SourceError::Refused {
                address,
                reason: format!("{status}; check `tokenFile`"),
            });
        }
        let text = String::from_utf8(bytes).map_err(|_| SourceError::Nonsense {
            address,
            reason: "an answer that is no text".to_owned(),
        })?;
        Ok((status, text))
    }
}

/// An address without its query: that is long, and the same in every line of the log.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// Somebody else's words, on one line and not too many.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars()
        .take(LONGEST_REASON)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    excerpt(&text)
}

/// One implementation of TLS for the whole program, whichever feature brought another one in.
pub(crate) fn choose_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only where the program has chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
