//! A policy at an HTTP address.

use std::{fmt, sync::Weak, time::Duration};

use reqwest::{StatusCode, header};
use retryguard_core::Backoff;

use super::{
    file::LARGEST,
    live::{Inner, LivePolicy, RemoteError},
};
use crate::{
    clock::{self, Random},
    periodic::Periodic,
    tls,
};

/// How long one fetch may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// On an answer into which a controller has merged its decisions: after how many seconds without an answer they no
/// longer hold.
const LAPSE_AFTER: &str = "x-retryguard-lapse-after";

/// A server of policies, such as `retryguard policy serve` or the controller's.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use retryguard::remote::PolicyServer;
///
/// let token = std::fs::read_to_string("/run/secrets/policy-token")?;
/// let live = PolicyServer::new("http://127.0.0.1:9465/policies/shop")
///     .token(token.trim_end())
///     .follow()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is fetched before `follow`"]
#[derive(Clone)]
pub struct PolicyServer {
    url: String,
    token: Option<String>,
}

impl PolicyServer {
    /// The server of the policy at this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
        }
    }

    /// Sends this bearer token with every request: the text of the server's `tokenFile`, without its line end. It is
    /// never logged, and does not follow a redirect to another host or port. A third party that can read the traffic can read it,
    /// so beyond this machine the address should be one of TLS.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Fetches the policy and polls it, with ETag and jitter. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Where the token cannot be sent, or the first policy cannot be fetched or is wrong.
    pub async fn follow(self) -> Result<LivePolicy, RemoteError> {
        LivePolicy::poll(Poller::new(self.url, self.token.as_deref())?).await
    }
}

impl fmt::Debug for PolicyServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PolicyServer")
            .field("url", &shown(&self.url))
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Polls an address.
pub(super) struct Poller {
    client: reqwest::Client,
    url: String,
    shown: String,
    authorization: Option<header::HeaderValue>,
    etag: Option<header::HeaderValue>,
    /// The policy without a controller's decisions, where the one in force has any.
    original: Option<Original>,
    heard: tokio::time::Instant,
}

struct Original {
    text: String,
    after: Duration,
}

impl Poller {
    fn new(url: String, token: Option<&str>) -> Result<Self, RemoteError> {
        let authorization = token.map(bearer).transpose()?;
        let client = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .timeout(TIMEOUT)
            .build()
            .map_err(failed)?;
        Ok(Self {
            client,
            shown: shown(&url),
            url,
            authorization,
            etag: None,
            original: None,
            heard: clock::now(),
        })
    }

    /// The address as it may be logged.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    fn get(&self) -> reqwest::RequestBuilder {
        let request = self.client.get(&self.url);
        match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        }
    }

    /// The text of a new policy; `None` where it has not changed.
    pub(super) async fn fetch(&mut self) -> Result<Option<String>, RemoteError> {
        let mut request = self.get();
        if let Some(etag) = &self.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let response = request.send().await.map_err(failed)?;
        match response.status() {
            StatusCode::NOT_MODIFIED => {
                self.heard = clock::now();
                return Ok(None);
            }
            StatusCode::OK => {}
            status => return Err(refusal(status)),
        }
        let etag = response.headers().get(header::ETAG).cloned();
        let lapse = response
            .headers()
            .get(LAPSE_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let text = body(response).await?;
        self.original = match lapse {
            Some(after) => Some(Original {
                text: self.fetch_original().await?,
                after,
            }),
            None => None,
        };
        self.etag = etag;
        self.heard = clock::now();
        Ok(Some(text))
    }

    /// The policy as its user wrote it. Where it cannot be had, the other is not taken either: nothing would end it.
    async fn fetch_original(&self) -> Result<String, RemoteError> {
        let mut request = self.get().build().map_err(failed)?;
        request.url_mut().query_pairs_mut().append_pair("original", "");
        let response = self.client.execute(request).await.map_err(failed)?;
        match response.status() {
            StatusCode::OK => body(response).await,
            status => Err(refusal(status)),
        }
    }

    /// The policy to go back to, where the decisions in the present one no longer hold.
    fn lapsed(&mut self) -> Option<String> {
        let after = self.original.as_ref()?.after;
        if clock::now().duration_since(self.heard) < after {
            return None;
        }
        // The next server is asked for the whole policy.
        self.etag = None;
        self.original.take().map(|original| original.text)
    }

    /// Polls for as long as there is a receiver. Polls are spread over the period, so that a fleet does
    /// not poll together; after a failure they back off, so that a server that is down is not asked faster.
    pub(super) async fn follow(mut self, live: Weak<Inner>) {
        let backoff = Backoff {
            cap: Duration::from_secs(300),
            ..Backoff::default()
        };
        let mut failures = 0;
        let Some(period) = live.upgrade().map(|live| live.period()) else {
            return;
        };
        let polls = Periodic::new(period);
        polls.first().await;
        loop {
            let Some(live_now) = live.upgrade() else { return };
            match self.fetch().await {
                Ok(Some(text)) => {
                    live_now.offer(&text);
                    failures = 0;
                }
                Ok(None) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        live_now.refuse(&error);
                    }
                    if let Some(text) = self.lapsed() {
                        tracing::warn!(
                            target: "retryguard",
                            url = self.shown,
                            "the decisions in the policy have expired: the user's own policy is in force again"
                        );
                        live_now.offer(&text);
                    }
                    let wait = backoff
                        .delay(failures, Duration::ZERO, &mut Random)
                        .unwrap_or_default();
                    clock::sleep(wait).await;
                }
            }
            polls.set_period(live_now.period());
            drop(live_now);
            polls.next().await;
        }
    }
}

/// An address without what may be a secret: a name and a password, a query (a signed address has its key there) and a
/// fragment.
fn shown(url: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(url) else {
        return "an address that is not a URL".to_owned();
    };
    // Both fail only for addresses that cannot have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.to_string()
}

/// reqwest repeats the address in its message, with everything in it.
fn failed(error: reqwest::Error) -> RemoteError {
    if error.is_connect() && error.url().is_some_and(tls::is_missing_for) {
        return RemoteError::NoTls;
    }
    RemoteError::Fetch(error.without_url())
}

fn bearer(token: &str) -> Result<header::HeaderValue, RemoteError> {
    if token.is_empty() {
        return Err(RemoteError::Token);
    }
    let mut value =
        header::HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| RemoteError::Token)?;
    // A request that is printed shows that there is a token, and not which.
    value.set_sensitive(true);
    Ok(value)
}

fn refusal(status: StatusCode) -> RemoteError {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RemoteError::Unauthorized(status.as_u16()),
        status => RemoteError::Status(status.as_u16()),
    }
}

async fn body(mut response: reqwest::Response) -> Result<String, RemoteError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > LARGEST {
            return Err(RemoteError::TooLarge { limit: LARGEST });
        }
        bytes.extend_from_slice(&chunk);
    }
    // Bytes that are not UTF-8 become a policy with a mistake in it, which is reported with its place.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signed address stood in a metric's label, in `Debug` and in the log.
    #[test]
    fn secrets_of_an_address_are_not_shown() {
        let url = "https://user:hunter2@host:8443/policies/shop?X-Amz-Signature=5ecret#5ecret";
        let server = PolicyServer::new(url).token("t0ken");
        let texts = [shown(url), format!("{server:?}"), shown("hunter2 5ecret")];
        for text in texts {
            for secret in ["hunter2", "5ecret", "user", "t0ken"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        assert!(shown(url).starts_with("https://host:8443/policies/shop"));
    }
}
