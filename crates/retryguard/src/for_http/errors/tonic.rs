//! tonic's errors.

use std::error::Error as StdError;

use super::NetworkFailure;

pub(super) fn read(error: &(dyn StdError + 'static)) -> Option<NetworkFailure> {
    if error.is::<tonic::ConnectError>() {
        return Some(NetworkFailure::Connect);
    }
    error
        .is::<tonic::TimeoutExpired>()
        .then_some(NetworkFailure::Timeout)
}
