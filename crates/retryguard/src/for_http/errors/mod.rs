//! What the error of a client says, by its type and never by its text: the text of an error contains the URL, and
//! whatever else the other side would like us to read.
//!
//! One adapter for each client, behind the feature of its name; `std`'s and tokio's errors are read by all. An error
//! that no adapter knows is [`NetworkFailure::Other`]: the request may have been carried out, so one that must
//! not be done twice is not sent again. To say more of an error of one's own, see
//! [`Http::errors_read_by`](super::Http::errors_read_by).

#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "reqwest")]
mod reqwest;
#[cfg(feature = "tonic")]
mod tonic;

use std::{
    error::Error as StdError,
    io::{self, ErrorKind},
    sync::Arc,
};

use super::{NetworkFailure, StreamBroke};
use crate::error::BoxedError;

/// The longest chain of sources that is followed. Chains are a handful long; one that refers to itself has no end.
const LONGEST: usize = 32;

/// Reads an error down its chain of sources.
pub(super) fn read(error: &(dyn StdError + 'static)) -> NetworkFailure {
    find(error).unwrap_or(NetworkFailure::Other)
}

/// The same; `None` where no error of the chain is known.
fn find(error: &(dyn StdError + 'static)) -> Option<NetworkFailure> {
    std::iter::successors(Some(error), |&error| error.source())
        .take(LONGEST)
        .find_map(read_one)
}

/// What this error says without its sources; `None` where it is only a wrapper.
fn read_one(error: &(dyn StdError + 'static)) -> Option<NetworkFailure> {
    // The target had begun to answer, whatever is said of the stream afterwards.
    if error.is::<StreamBroke>() {
        return Some(NetworkFailure::Reset);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref() {
        return Some(reqwest::read(error));
    }
    #[cfg(feature = "tonic")]
    if let Some(read) = tonic::read(error) {
        return Some(read);
    }
    #[cfg(feature = "hyper")]
    if let Some(read) = hyper::read(error) {
        return Some(read);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return read_io(error);
    }
    if let Some(boxed) = error.downcast_ref::<BoxedError>() {
        return Some(read(boxed.get_ref()));
    }
    if let Some(shared) = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>() {
        return Some(read(&**shared));
    }
    error
        .is::<tokio::time::error::Elapsed>()
        .then_some(NetworkFailure::Timeout)
}

/// An I/O error without a client around it. Only a refused connection is certainly one that was never used: a host
/// that has become unreachable is also told to a connection that has carried requests.
fn read_io(error: &io::Error) -> Option<NetworkFailure> {
    if let Some(inner) = error.get_ref() {
        let inner = read(inner);
        if inner != NetworkFailure::Other {
            return Some(inner);
        }
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(NetworkFailure::Connect),
        kind => read_used(kind),
    }
}

/// An I/O error of a connection that has been used.
fn read_used(kind: ErrorKind) -> Option<NetworkFailure> {
    match kind {
        ErrorKind::TimedOut => Some(NetworkFailure::Timeout),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionRefused
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(NetworkFailure::Reset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] io::Error);

    #[test]
    fn a_refused_connection_was_certainly_never_used() {
        let refused = Outer("request failed", ErrorKind::ConnectionRefused.into());
        assert_eq!(read(&refused), NetworkFailure::Connect);
        assert_eq!(read(&io::Error::other(refused)), NetworkFailure::Connect);
    }

    #[test]
    fn a_connection_that_broke_may_have_carried_the_request() {
        for kind in [
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
            ErrorKind::UnexpectedEof,
        ] {
            assert_eq!(read(&Outer("error writing", kind.into())), NetworkFailure::Reset);
        }
        for kind in [
            ErrorKind::HostUnreachable,
            ErrorKind::NetworkUnreachable,
            ErrorKind::NotFound,
        ] {
            assert_eq!(read(&io::Error::from(kind)), NetworkFailure::Other);
        }
    }

    /// The text of a URL must not change how an error is read.
    #[test]
    fn words_in_a_text_say_nothing() {
        for text in [
            "http://host/connect/token",
            "dns error",
            "operation was canceled",
            "timed out",
            "connection closed",
        ] {
            let outer = Outer(text, io::Error::other(text));
            assert_eq!(read(&outer), NetworkFailure::Other, "{text}");
            let refused = Outer(text, ErrorKind::ConnectionReset.into());
            assert_eq!(read(&refused), NetworkFailure::Reset, "{text}");
        }
    }

    #[test]
    fn a_chain_without_an_end_is_not_followed_for_ever() {
        #[derive(Debug)]
        struct Circle;
        impl std::fmt::Display for Circle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("again")
            }
        }
        impl StdError for Circle {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&Circle)
            }
        }
        assert_eq!(read(&Circle), NetworkFailure::Other);
    }
}
