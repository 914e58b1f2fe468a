//! reqwest's errors.

use std::error::Error as StdError;

use super::NetworkFailure;
use crate::tls;

/// By its sources, where they say anything: `is_connect` and `is_timeout` also look into the error of a request's body, which
/// is no evidence about the target.
pub(super) fn read(error: &reqwest::Error) -> NetworkFailure {
    if error.is_builder() || tls::is_missing_for_redirect(error) {
        return NetworkFailure::Invalid;
    }
    // A redirect that leads nowhere, and a body that cannot be read, follow an answer.
    if error.is_redirect() || error.is_decode() || error.is_status() {
        return NetworkFailure::Other;
    }
    match error.source().and_then(super::find) {
        Some(read) => read,
        None if error.is_timeout() => NetworkFailure::Timeout,
        None => NetworkFailure::Other,
    }
}
