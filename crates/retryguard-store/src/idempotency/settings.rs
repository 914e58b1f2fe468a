//! How the layer behaves, with the reason of each default.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode, header, request::Parts};

/// What happens to a request with a key when the store is away, slow or full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// It is refused with 503 and `Retry-After`, and nothing is done. The default: a client that sends a key asks that
    /// nothing is done twice.
    #[default]
    Refuse,
    /// It is worked on without protection, and has no [`super::Claim`].
    Proceed,
}

/// Whether a response is final: a retry would not change it. Everything but 408, 425, 429 and 5xx, which is what a
/// policy's classifier calls retryable by default, and a little more.
#[must_use]
pub fn is_final(status: StatusCode) -> bool {
    !status.is_server_error()
        && !matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

type Scope = Arc<dyn Fn(&Parts) -> Vec<u8> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) namespace: String,
    pub(super) methods: Vec<Method>,
    pub(super) required: bool,
    /// Whether handlers claim their keys in the transactions of their effects.
    pub(super) in_transaction: bool,
    pub(super) bare: bool,
    pub(super) documentation: Option<String>,
    pub(super) principal: Scope,
    pub(super) route: Scope,
    pub(super) other_request: StatusCode,
    pub(super) is_final: fn(StatusCode) -> bool,
    pub(super) on_store_failure: OnStoreFailure,
    /// Long enough for any handler that is alive; after it the next duplicate takes over.
    pub(super) lock: Duration,
    pub(super) keep: Duration,
    pub(super) wait: Duration,
    pub(super) store_timeout: Duration,
    pub(super) deadline: Option<Duration>,
    pub(super) key_limit: usize,
    pub(super) request_limit: usize,
    pub(super) response_limit: usize,
    pub(super) sweep: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            // The two methods that are not idempotent by themselves.
            methods: vec![Method::POST, Method::PATCH],
            // Clients that know nothing of keys go on as before.
            required: false,
            in_transaction: false,
            bare: false,
            documentation: None,
            principal: Arc::new(authorization),
            route: Arc::new(|parts| parts.uri.path().as_bytes().to_vec()),
            other_request: StatusCode::UNPROCESSABLE_ENTITY,
            is_final,
            on_store_failure: OnStoreFailure::default(),
            lock: Duration::from_secs(30),
            keep: Duration::from_secs(24 * 60 * 60),
            // Most first requests are answered in it; longer, and waiting duplicates fill the server.
            wait: Duration::from_secs(5),
            // For its callers, a store that takes a second is down.
            store_timeout: Duration::from_secs(1),
            deadline: None,
            key_limit: 255,
            request_limit: 1024 * 1024,
            response_limit: 1024 * 1024,
            sweep: Some(Duration::from_secs(60)),
        }
    }
}

/// The same credentials are the same client. Its hash is what is stored.
fn authorization(parts: &Parts) -> Vec<u8> {
    parts
        .headers
        .get(header::AUTHORIZATION)
        .map(|value| value.as_bytes().to_vec())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored failure would be replayed to a client that retries in good faith.
    #[test]
    fn nothing_is_stored_that_a_policy_retries() {
        let classifier = retryguard_policy::Classifier::default();
        for number in 100..600 {
            let status = StatusCode::from_u16(number).unwrap();
            let outcome = classifier.http(number, retryguard_core::outcome::Hints::NONE);
            if let retryguard_core::outcome::Outcome::Failure(failure) = outcome
                && failure.retryable
            {
                assert!(!is_final(status), "{number} is retryable and must not be stored");
            }
        }
        for number in [200, 201, 204, 303, 400, 404, 409, 422] {
            assert!(is_final(StatusCode::from_u16(number).unwrap()));
        }
        for number in [408, 425, 429, 500, 501, 503, 504] {
            assert!(!is_final(StatusCode::from_u16(number).unwrap()));
        }
    }
}
