//! Redirects that a client follows by itself.
//!
//! An attempt whose first server has answered with a redirect was processed by that server, whatever happens at the
//! second: "no connection came about" is then no proof that the request was never sent. reqwest's errors do not
//! say that a redirect was followed, so the redirect policy does. Of a client that is brought along it is not known whether its
//! policy does: none of its failed connections is then proof.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::tls;

thread_local! {
    /// Whether the attempt that is being polled has followed a redirect.
    static FOLLOWED: Cell<bool> = const { Cell::new(false) };
}

/// reqwest's own policy of at most ten redirects, which tells [`Client`](super::Client) of them. For a client that is brought
/// along: `reqwest::Client::builder().redirect(retryguard::for_reqwest::redirects())`, and then [`Client::reports_redirects`](super::Client::reports_redirects).
#[must_use]
pub fn redirects() -> reqwest::redirect::Policy {
    const MOST: usize = 10;
    reqwest::redirect::Policy::custom(|attempt| {
        FOLLOWED.set(true);
        if tls::is_missing_for(attempt.url()) {
            attempt.error(tls::MissingForRedirect)
        } else if attempt.previous().len() > MOST {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}

/// A reqwest client whose errors say whether a redirect was followed.
#[derive(Debug, Clone)]
pub(super) struct Following {
    pub(super) client: reqwest::Client,
    /// Whether its redirect policy is [`redirects`], or follows none.
    pub(super) reports: bool,
}

/// Why an attempt has no response.
#[derive(Debug)]
pub(super) struct AttemptError {
    pub(super) error: reqwest::Error,
    pub(super) redirected: Redirected,
}

/// Whether a redirect was followed before an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirected {
    No,
    Yes,
    Unknown,
}

type Pending = <reqwest::Client as Service<reqwest::Request>>::Future;

impl Service<reqwest::Request> for Following {
    type Response = reqwest::Response;
    type Error = AttemptError;
    type Future = FollowingFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), AttemptError>> {
        // A reqwest client is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: reqwest::Request) -> FollowingFuture {
        FollowingFuture {
            pending: self.client.call(request),
            redirected: if self.reports {
                Redirected::No
            } else {
                Redirected::Unknown
            },
        }
    }
}

pin_project! {
    pub(super) struct FollowingFuture {
        #[pin]
        pending: Pending,
        redirected: Redirected,
    }
}

impl Future for FollowingFuture {
    type Output = Result<reqwest::Response, AttemptError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outer = FOLLOWED.replace(false);
        let result = this.pending.poll(cx);
        if FOLLOWED.replace(outer) {
            *this.redirected = Redirected::Yes;
        }
        let redirected = *this.redirected;
        result.map_err(|error| AttemptError { error, redirected })
    }
}
