//! The answers to requests that are not worked on, in HTTP's words and in gRPC's.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use retryguard_core::{Chance, shed};

use super::ServerBody;
use crate::{
    clock::Random,
    for_http::{
        is_grpc,
        tags::{DO_NOT_RETRY, GRPC_PUSHBACK, GRPC_STATUS, RETRIED, RETRY_AFTER_MS, whole_millis},
    },
};

/// gRPC's codes for "too much to do" and "too late".
const RESOURCE_EXHAUSTED: u16 = 8;
const DEADLINE_EXCEEDED: u16 = 4;

/// Why a request is not worked on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// Too much to do.
    Overloaded(shed::Refused),
    /// The caller no longer waits for the answer.
    TooLate,
    /// It took too long while the server was full.
    TooSlow,
}

impl Answer {
    pub(super) fn response<B>(self, grpc: bool) -> Response<ServerBody<B>> {
        match self {
            Self::Overloaded(refused) => overloaded(&refused, grpc),
            Self::TooLate => too_late(grpc),
            Self::TooSlow => too_slow(grpc),
        }
    }
}

/// Come back later, and do not retry this.
fn overloaded<B>(refused: &shed::Refused, grpc: bool) -> Response<ServerBody<B>> {
    let text = match refused.reason {
        shed::Reason::InFlight => "overloaded: too many requests in flight\n",
        shed::Reason::QueueTime => "overloaded: requests wait too long for their turn\n",
        shed::Reason::Processor => "overloaded: the processor is too busy\n",
    };
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, RESOURCE_EXHAUSTED, text, grpc);
    let headers = response.headers_mut();
    headers.insert(
        header::RETRY_AFTER,
        HeaderValue::from(spread_seconds(refused.retry_after, &mut Random)),
    );
    headers.insert(
        RETRY_AFTER_MS,
        HeaderValue::from(whole_millis(refused.retry_after)),
    );
    headers.insert(DO_NOT_RETRY, HeaderValue::from_static("overloaded"));
    if grpc {
        headers.insert(GRPC_PUSHBACK, HeaderValue::from_static("-1"));
    }
    response
}

fn too_late<B>(grpc: bool) -> Response<ServerBody<B>> {
    let text = "the deadline of this request has passed\n";
    answer(StatusCode::GATEWAY_TIMEOUT, DEADLINE_EXCEEDED, text, grpc)
}

/// Others need the place. The refusal carries no Retry-After: this request was the slow one.
fn too_slow<B>(grpc: bool) -> Response<ServerBody<B>> {
    let text = "overloaded: this request took too long while others waited\n";
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, RESOURCE_EXHAUSTED, text, grpc);
    let reason = HeaderValue::from_static("overloaded");
    response.headers_mut().insert(DO_NOT_RETRY, reason);
    response
}

fn answer<B>(status: StatusCode, code: u16, text: &'static str, grpc: bool) -> Response<ServerBody<B>> {
    let mut response = Response::new(ServerBody::reason(None));
    if grpc {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
            .headers_mut()
            .insert(GRPC_STATUS, HeaderValue::from(code));
        let message = HeaderValue::from_str(text.trim_end()).unwrap_or(HeaderValue::from_static("refused"));
        response.headers_mut().insert("grpc-message", message);
    } else {
        *response.status_mut() = status;
        *response.body_mut() = ServerBody::reason(Some(Bytes::from_static(text.as_bytes())));
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
    }
    response
}

/// Retry-After knows whole seconds only. Rounding all waits the same way would bring all clients back at the
/// same second, so the fraction decides how many are rounded up.
fn spread_seconds(wait: Duration, chance: &mut impl Chance) -> u64 {
    let up = chance.below(1_000_000_000) < u64::from(wait.subsec_nanos());
    (wait.as_secs() + u64::from(up)).max(1)
}

/// Marks a failed response whose failure was already retried below.
#[inline]
pub(super) fn mark_retried<B>(response: &mut Response<B>, layers: u8) {
    if layers > 0 && is_failure(response.status(), response.headers()) {
        response
            .headers_mut()
            .insert(RETRIED, HeaderValue::from(u16::from(layers)));
    }
}

fn is_failure(status: StatusCode, headers: &HeaderMap) -> bool {
    let grpc_failed = || {
        headers
            .get(GRPC_STATUS)
            .is_some_and(|code| code.as_bytes() != b"0")
    };
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || (is_grpc(headers) && grpc_failed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use retryguard_core::chance::{Highest, Lowest};

    #[test]
    fn whole_seconds_are_spread_too() {
        let wait = Duration::from_millis(1500);
        assert_eq!(
            (
                spread_seconds(wait, &mut Lowest),
                spread_seconds(wait, &mut Highest)
            ),
            (2, 1)
        );
        assert_eq!(spread_seconds(Duration::ZERO, &mut Highest), 1);
    }

    #[test]
    fn only_failures_are_marked() {
        let mut fine = Response::new(());
        mark_retried(&mut fine, 2);
        assert!(!fine.headers().contains_key(RETRIED));
        let mut failed = Response::builder().status(503).body(()).unwrap();
        mark_retried(&mut failed, 2);
        assert_eq!(failed.headers()[RETRIED], "2");
    }
}
