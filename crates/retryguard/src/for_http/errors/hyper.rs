//! hyper's errors, those of its pooled client, and HTTP/2's.

use std::{error::Error as StdError, io};

use ::hyper_util::client::legacy;

use super::{NetworkFailure, read_used};

pub(super) fn read(error: &(dyn StdError + 'static)) -> Option<NetworkFailure> {
    if let Some(error) = error.downcast_ref::<legacy::Error>() {
        // Everything before the first byte of the request: names, sockets, TLS, a proxy's tunnel.
        return error.is_connect().then_some(NetworkFailure::Connect);
    }
    if let Some(error) = error.downcast_ref::<::hyper::Error>() {
        return Some(read_hyper(error));
    }
    error.downcast_ref().map(read_h2)
}

/// An error of a connection that exists, so that the sources of it speak of a connection that has been used.
fn read_hyper(error: &::hyper::Error) -> NetworkFailure {
    // hyper gives a request up as canceled only while it still has it whole: the connection ended before the request
    // was taken from its queue (`client/dispatch.rs`, `proto/h1/dispatch.rs`). A caller that goes away drops the
    // future, and there is no error at all.
    if error.is_canceled() {
        return NetworkFailure::Unprocessed;
    }
    // The source of the request's body broke, on the caller's side: nothing is known of the target.
    if error.is_user() {
        return NetworkFailure::Cancelled;
    }
    if error.is_timeout() {
        return NetworkFailure::Timeout;
    }
    let source = error.source();
    if let Some(error) = source.and_then(|source| source.downcast_ref()) {
        return read_h2(error);
    }
    let io = source.and_then(|source| source.downcast_ref::<io::Error>());
    io.and_then(|io| read_used(io.kind()))
        .unwrap_or(NetworkFailure::Reset)
}

/// RFC 9113, section 8.7: a stream that was refused, and one above the last stream of a GOAWAY, have not been processed
/// and may be sent again whatever their method.
fn read_h2(error: &::h2::Error) -> NetworkFailure {
    if error.is_remote() {
        // h2 ends a stream with the peer's GOAWAY only if its number is above the last one that the peer names; earlier
        // streams go on, and break like any other when the connection does (`proto/streams/streams.rs`).
        let refused = error.is_reset() && error.reason() == Some(::h2::Reason::REFUSED_STREAM);
        if refused || error.is_go_away() {
            return NetworkFailure::Unprocessed;
        }
    } else if error.is_reset() && !error.is_library() {
        // hyper itself resets a stream whose response is still wanted only where the request's body broke.
        return NetworkFailure::Cancelled;
    }
    error
        .get_io()
        .and_then(|io| read_used(io.kind()))
        .unwrap_or(NetworkFailure::Reset)
}
