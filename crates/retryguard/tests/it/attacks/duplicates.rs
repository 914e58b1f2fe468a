//! A request that must not be done twice is sent twice only if it was certainly not processed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Uri};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{
        Client as HyperClient,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo},
};
use retryguard::{
    Error, FailureKind, Policy, Refusal, Report,
    for_http::{Http, HttpLayer},
    machines::breaker,
};
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer, Service, ServiceExt};

use super::{hyper, reqwest};
use crate::support::{
    bytes::{Http2, INTERNAL_ERROR, REFUSED_STREAM, Raw},
    loopback::listen,
    only,
};

fn eager() -> Policy {
    only("maxRetries: 2, initialDelay: 1ms")
}

/// Sends a POST with both clients and says how many requests the server has taken, and whether the call succeeded.
async fn post(server: impl AsyncFn() -> Raw, path: &str, http2: bool) -> [(usize, bool); 2] {
    let by_reqwest = server().await;
    let sent = reqwest(&eager(), http2)
        .post(by_reqwest.url(path))
        .body("once")
        .send()
        .await;
    let by_hyper = server().await;
    let request = Request::post(by_hyper.url(path))
        .body(Full::from("once"))
        .unwrap();
    let answered = hyper(&eager(), http2).oneshot(request).await;
    [
        (by_reqwest.requests(), sent.is_ok_and(|it| it.status() == 200)),
        (by_hyper.requests(), answered.is_ok_and(|it| it.status() == 200)),
    ]
}

/// reqwest's message contains the URL, and "connect" in it meant that the request was never sent: three requests.
#[tokio::test]
async fn garbage_in_answer_to_a_post_is_not_a_failed_connection() {
    for path in ["/connect/token", "/dns%20error", "/"] {
        let server = async || Raw::http1(b"NONSENSE\r\n\r\n", true).await;
        assert_eq!(post(server, path, false).await, [(1, false); 2], "{path}");
    }
}

/// Three requests.
#[tokio::test]
async fn a_malformed_frame_after_the_request_is_not_a_failed_connection() {
    let server = async || Raw::http2([Http2::Malformed; 9]).await;
    assert_eq!(post(server, "/connect", true).await, [(1, false); 2]);
}

/// The server took it, said that it was the last it takes, and went away: it may have been processed.
#[tokio::test]
async fn a_goaway_that_includes_the_request_may_have_been_processed() {
    let server = async || Raw::http2([Http2::GoAwayAfter; 9]).await;
    assert_eq!(post(server, "/", true).await, [(1, false); 2]);
}

/// RST_STREAM with CANCEL is the server's own, and not the caller's.
#[tokio::test]
async fn a_stream_that_the_server_cancels_may_have_been_processed() {
    let server = async || Raw::http2([Http2::Cancelled; 9]).await;
    assert_eq!(post(server, "/", true).await, [(1, false); 2]);
}

/// RFC 9113, section 8.7. Plain reqwest sends these again, and under a policy they failed.
#[tokio::test]
async fn what_was_certainly_not_processed_is_sent_again_whatever_its_method() {
    for answer in [Http2::Refused, Http2::GoAwayBefore] {
        let server = async || Raw::http2([answer]).await;
        assert_eq!(post(server, "/", true).await, [(2, true); 2], "{answer:?}");
    }
}

#[tokio::test]
async fn grpc_calls_that_were_refused_are_sent_again_and_others_are_not() {
    for (answer, requests) in [
        (Http2::Refused, 2),
        (Http2::GoAwayBefore, 2),
        (Http2::Malformed, 1),
        (Http2::GoAwayAfter, 1),
    ] {
        let server = Raw::http2([answer]).await;
        let channel = Endpoint::from_shared(server.url("")).unwrap().connect_lazy();
        let layer = retryguard::for_tonic::TonicLayer::new(&eager(), "it", Http::new());
        let mut client = HealthClient::new(layer.layer(channel));
        // The server's 200 is not a gRPC answer: the call fails either way, and only what was sent counts.
        let failed = client.check(HealthCheckRequest::default()).await.unwrap_err();
        assert_eq!(server.requests(), requests, "{answer:?}: {failed:?}");
    }
}

/// A connection that reports ETIMEDOUT once the request has been written, as the kernel does when a peer has gone silent.
struct Silent(TokioIo<TcpStream>, bool);

impl hyper::rt::Read for Silent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.1 {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Silent {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, bytes);
        self.1 |= written.is_ready();
        cx.waker().wake_by_ref();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Connection for Silent {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Three requests: any timeout below the word "connect" was one of connecting.
#[tokio::test]
async fn a_connection_that_times_out_after_the_request_was_written_may_have_delivered_it() {
    let server = Raw::black_hole().await;
    let connector = tower::service_fn(|uri: Uri| {
        Box::pin(async move {
            let stream = HttpConnector::new().call(uri).await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(Silent(stream, false))
        })
    });
    let client = HyperClient::builder(TokioExecutor::new()).build(connector);
    let service = HttpLayer::new(&eager(), "it").layer(client);
    let request = Request::post(server.url("/connect"))
        .body(Full::from("once"))
        .unwrap();
    let error = service.oneshot(request).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Failed {
                attempts: 1,
                refusal: Refusal::NotIdempotent,
                ..
            }
        ),
        "{error:?}"
    );
    crate::support::time::until("the request arrives", || server.requests() == 1).await;
}

/// "canceled" in the URL was the caller's own cancellation: nothing was retried, and the breaker learnt nothing.
#[tokio::test]
async fn a_word_in_the_url_does_not_decide() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    drop(listener);
    let policy = only("maxRetries: 2, initialDelay: 1ms, breaker: { trip: consecutive, failures: 3 }");
    for path in ["canceled", "cancelled", "timed%20out"] {
        let client = reqwest(&policy, false);
        let error = client
            .post(format!("http://{address}/{path}"))
            .send()
            .await
            .unwrap_err();
        assert_eq!(
            client.handle().status().breaker,
            breaker::State::Open,
            "{path}: {error:?}"
        );
        client.handle().replace(&only("breaker: off"));
        client.handle().replace(&policy);
    }
}

/// A fifth of the calls to a server that closes at once failed as cancelled by their caller.
#[tokio::test]
async fn a_connection_that_closes_at_once_is_not_the_callers_cancellation() {
    let server = Raw::closing().await;
    for http2 in [false, true] {
        let (service, client) = (hyper(&eager(), http2), reqwest(&eager(), http2));
        for _ in 0..40 {
            let request = Request::get(server.url("/")).body(Full::default()).unwrap();
            let by_hyper = service.clone().oneshot(request).await.unwrap_err();
            let by_reqwest = client.get(server.url("/")).send().await.unwrap_err();
            for (refusal, attempts) in [
                (by_hyper.refusal(), by_hyper.attempts()),
                (by_reqwest.refusal(), by_reqwest.attempts()),
            ] {
                assert_eq!((refusal, attempts), (Some(Refusal::AttemptsUsed), 3));
            }
        }
    }
}

/// The first server took the POST and redirected to one that is down: "no connection came about" made three of them.
#[tokio::test]
async fn a_redirect_to_nowhere_follows_a_request_that_was_processed() {
    for status in ["302 Found", "307 Temporary Redirect"] {
        let listener = listen().await;
        let nowhere = listener.local_addr().unwrap();
        drop(listener);
        let answer = format!("HTTP/1.1 {status}\r\nlocation: http://{nowhere}/\r\ncontent-length: 0\r\n\r\n");
        let server = Raw::http1(answer.leak().as_bytes(), true).await;
        let client = retryguard::for_reqwest::Client::new(&eager(), "it").unwrap();
        let error = client.post(server.url("/")).send().await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::NotIdempotent), "{error:?}");
        assert_eq!(server.requests(), 1, "{status}");
        // reqwest's own redirect policy does not report it: three requests.
        let brought = brought();
        let error = brought.post(server.url("/")).send().await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::NotIdempotent), "{error:?}");
        assert_eq!(server.requests(), 2, "{status}");
        // A request that may be done twice is sent again.
        let error = brought.get(server.url("/")).send().await.unwrap_err();
        assert_eq!(error.history().len(), 3, "{error:?}");
        assert_eq!(error.history()[0].failure, FailureKind::Unreachable);
    }
}

fn brought() -> retryguard::for_reqwest::Client {
    retryguard::for_reqwest::Client::with(reqwest::Client::new(), &eager(), "it", Http::new())
}

/// A client that is known to report its redirects says of a failed connection what the library's own says.
#[tokio::test]
async fn a_client_that_reports_its_redirects_sends_again_what_never_left() {
    let listener = listen().await;
    let nowhere = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let silent = brought().post(&nowhere).send().await.unwrap_err();
    assert_eq!(silent.attempts(), 1, "{silent:?}");
    let reporting = brought().reports_redirects();
    let error = reporting.post(&nowhere).send().await.unwrap_err();
    assert_eq!(error.attempts(), 3, "{error:?}");
}

/// A server cannot recognise an empty key: three requests.
#[tokio::test]
async fn an_empty_idempotency_key_makes_nothing_idempotent() {
    for (key, requests) in [("", 1), (" ", 1), ("\"\"", 1), ("\"7\"", 3)] {
        let server = Raw::http1(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", true).await;
        let request = reqwest(&eager(), false).post(server.url("/"));
        let answered = request.header("idempotency-key", key).send().await.unwrap();
        assert_eq!(answered.status(), 500);
        assert_eq!(server.requests(), requests, "{key:?}");
    }
}

/// The head of a gRPC response, and then the end of its stream: read as a success, so that no breaker ever opened, and
/// what may be done twice was not sent again. REFUSED_STREAM says nothing any more once an answer has begun.
#[tokio::test]
async fn a_grpc_stream_that_ends_before_its_first_message_has_failed() {
    for answer in [
        Http2::GrpcHead,
        Http2::GrpcHeadThenReset(INTERNAL_ERROR),
        Http2::GrpcHeadThenReset(REFUSED_STREAM),
    ] {
        for (idempotent, requests) in [(false, 1), (true, 3)] {
            let server = Raw::http2([answer; 9]).await;
            let channel = Endpoint::from_shared(server.url("")).unwrap().connect_lazy();
            let protocol = Http::new().idempotent_when(move |_, _| idempotent);
            let policy = only(&format!(
                "maxRetries: 2, initialDelay: 1ms, breaker: {{ trip: consecutive, failures: {requests} }}"
            ));
            let layer = retryguard::for_tonic::TonicLayer::new(&policy, "it", protocol);
            let mut client = HealthClient::new(layer.layer(channel));
            let failed = client.check(HealthCheckRequest::default()).await.unwrap_err();
            assert_ne!(failed.code(), tonic::Code::Ok);
            assert_eq!(server.requests(), requests, "{answer:?}: {failed:?}");
            assert_eq!(
                layer.handle().status().breaker,
                breaker::State::Open,
                "{answer:?}"
            );
        }
    }
}

/// A client that cannot send a request at all does not count against the target.
#[tokio::test]
async fn a_request_that_no_client_can_send_says_nothing_of_the_target() {
    let policy = only("breaker: { trip: consecutive, failures: 1 }");
    let client = reqwest(&policy, false);
    let error = client.get("no url").send().await.unwrap_err();
    assert_eq!(error.attempts(), 0);
    assert_eq!(client.handle().status().breaker, breaker::State::Closed);
}

/// The kinds are told with the response.
#[tokio::test]
async fn a_refused_stream_is_told_as_unreachable() {
    let server = Raw::http2([Http2::Refused, Http2::Refused, Http2::Refused]).await;
    let error = reqwest(&eager(), true)
        .post(server.url("/"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (3, Some(Refusal::AttemptsUsed))
    );
    let served = Raw::http2([Http2::Refused]).await;
    let response = reqwest(&eager(), true)
        .post(served.url("/"))
        .send()
        .await
        .unwrap();
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, report.failed), (2, None));
}
