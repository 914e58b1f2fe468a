//! A policy at an HTTP address.

use std::{sync::Weak, time::Duration};

use ::reqwest::{StatusCode, header};
use retryguard_core::Backoff;

use super::{
    file::LARGEST,
    live::{Inner, RemoteError},
};
use crate::{
    clock::{self, Random},
    periodic::Periodic,
};

/// How long one fetch may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// On an answer into which a controller has merged its decisions: after how many seconds without an answer they no
/// longer hold.
const LAPSE_AFTER: &str = "x-retryguard-lapse-after";

/// Polls an address.
pub(super) struct Poller {
    client: ::reqwest::Client,
    url: String,
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
    pub(super) fn new(url: String) -> Result<Self, RemoteError> {
        let client = ::reqwest::Client::builder()
            .retry(::reqwest::retry::never())
            .timeout(TIMEOUT)
            .build()
            .map_err(RemoteError::Fetch)?;
        Ok(Self {
            client,
            url,
            etag: None,
            original: None,
            heard: clock::now(),
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The text of a new policy; `None` where it has not changed.
    pub(super) async fn fetch(&mut self) -> Result<Option<String>, RemoteError> {
        let mut request = self.client.get(&self.url);
        if let Some(etag) = &self.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let response = request.send().await.map_err(RemoteError::Fetch)?;
        match response.status() {
            StatusCode::NOT_MODIFIED => {
                self.heard = clock::now();
                return Ok(None);
            }
            StatusCode::OK => {}
            status => return Err(RemoteError::Status(status.as_u16())),
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
        let mut request = self.client.get(&self.url).build().map_err(RemoteError::Fetch)?;
        request.url_mut().query_pairs_mut().append_pair("original", "");
        let response = self.client.execute(request).await.map_err(RemoteError::Fetch)?;
        match response.status() {
            StatusCode::OK => body(response).await,
            status => Err(RemoteError::Status(status.as_u16())),
        }
    }

    /// The policy to go back to, where the decisions in the present one no longer hold.
    fn lapsed(&mut self) -> Option<String> {
        let after = self.original.as_ref()?.after;
        if clock::now().duration_since(self.heard) < after {
            return None;
        }
        // Whoever answers next is asked for all of it.
        self.etag = None;
        self.original.take().map(|original| original.text)
    }

    /// Polls for as long as somebody wants to know. Polls are spread over the period, so that a fleet does
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
                            url = self.url,
                            "nobody stands by the decisions in the policy any more: the user's own is back"
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

async fn body(mut response: ::reqwest::Response) -> Result<String, RemoteError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(RemoteError::Fetch)? {
        if bytes.len() + chunk.len() > LARGEST {
            return Err(RemoteError::TooLarge { limit: LARGEST });
        }
        bytes.extend_from_slice(&chunk);
    }
    // Bytes that are no text become a policy with a mistake in it, which is told with its place.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
