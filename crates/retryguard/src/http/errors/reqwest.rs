//! reqwest's errors.

use super::NetworkFailure;
use crate::tls;

/// `None` where the sources know better.
pub(super) fn read(error: &::reqwest::Error) -> Option<NetworkFailure> {
    if error.is_builder() || tls::is_missing_for_redirect(error) {
        return Some(NetworkFailure::Invalid);
    }
    if error.is_connect() {
        return Some(NetworkFailure::Connect);
    }
    // A redirect that leads nowhere, and a body that cannot be read, follow an answer.
    if error.is_redirect() || error.is_decode() || error.is_status() {
        return Some(NetworkFailure::Other);
    }
    error.is_timeout().then_some(NetworkFailure::Timeout)
}
