//! Bodies that stall, and bodies that are no longer wanted.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use futures_core::Stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use retryguard::{
    BoxError, FailureKind,
    for_http::{BodyTimedOut, HttpLayer, tags::Tags},
    machines::breaker,
    server::ServerLayer,
};
use tower::{Layer, ServiceExt};

use super::{hyper, reqwest};
use crate::support::{
    bytes::{Http2, Raw},
    loopback::serve,
    only, policy,
    time::{sleep, until},
};

/// The head of an answer and a part of its body; the rest never comes.
const STALLED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";

fn is_late(error: &BoxError) -> bool {
    let first: &(dyn std::error::Error + 'static) = &**error;
    std::iter::successors(Some(first), |&error| error.source())
        .any(<dyn std::error::Error>::is::<BodyTimedOut>)
}

/// Attempt timeout and deadline ended with the head, and the reader of a stalled body waited for ever.
#[tokio::test]
async fn a_body_that_stalls_ends_with_the_attempts_time_or_the_callers_deadline() {
    let server = Raw::http1(STALLED, false).await;
    for (keys, deadline) in [
        // Long enough for the head on a busy machine.
        ("attemptTimeout: 500ms", None),
        ("deadline: 500ms", None),
        // The longer timeout of the attempt held the caller.
        ("attemptTimeout: 1m, deadline: 500ms", None),
        ("bodyTimeout: 500ms", None),
        ("bodyTimeout: off", Some(Duration::from_millis(500))),
    ] {
        let tags = deadline.map_or_else(Tags::new, |deadline| Tags::new().deadline(deadline));
        let mut request = Request::get(server.url("/")).body(Full::default()).unwrap();
        request.extensions_mut().insert(tags.clone());
        let response = hyper(&only(keys), false).oneshot(request).await.unwrap();
        let error = response.into_body().collect().await.unwrap_err();
        assert!(is_late(&error), "{keys}: {error:?}");

        let mut request = reqwest(&only(keys), false).get(server.url("/page"));
        if let Some(deadline) = deadline {
            request = request.deadline(deadline);
        }
        let response = request.send().await.unwrap();
        assert!(response.url().path() == "/page" && response.content_length() == Some(100));
        let error = response.bytes().await.unwrap_err();
        assert!(is_late(&error.into()), "{keys}");
    }
}

/// A body that goes on is not cut, however long it takes in all.
#[tokio::test(start_paused = true)]
async fn a_long_body_that_goes_on_is_not_cut() {
    #[derive(Clone)]
    struct Ticks(u8);
    let body = async_body(Ticks(50), |ticks| {
        ticks.0 = ticks.0.checked_sub(1)?;
        Some("tick")
    });
    let service = tower::service_fn(move |_: Request<_>| {
        let body = body();
        async { Ok::<_, std::io::Error>(http::Response::new(body)) }
    });
    let service = HttpLayer::new(&only("attemptTimeout: 500ms, deadline: 1s"), "it").layer(service);
    let request = Request::get("http://it/").body(Full::<Bytes>::default()).unwrap();
    let response = service.oneshot(request).await.unwrap();
    let whole = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(whole.len(), 50 * 4);
}

/// A body with a pause of 100 ms before each frame.
fn async_body<T>(
    from: T,
    next: fn(&mut T) -> Option<&'static str>,
) -> impl Fn() -> BoxBody<Bytes, std::io::Error> + Clone
where
    T: Clone + Send + Sync + Unpin + 'static,
{
    struct Paused<T>(
        T,
        fn(&mut T) -> Option<&'static str>,
        Pin<Box<tokio::time::Sleep>>,
    );
    impl<T: Unpin> Stream for Paused<T> {
        type Item = Result<Frame<Bytes>, std::io::Error>;
        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            std::task::ready!(self.2.as_mut().poll(cx));
            let after = crate::support::time::now() + Duration::from_millis(100);
            self.2.as_mut().reset(after);
            let this = &mut *self;
            Poll::Ready(
                (this.1)(&mut this.0).map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            )
        }
    }
    move || {
        let sleep = Box::pin(tokio::time::sleep_until(crate::support::time::now()));
        BoxBody::new(StreamBody::new(Paused(from.clone(), next, sleep)))
    }
}

/// The failed response was kept until the call was over, and with it the only stream that the server allows.
#[tokio::test]
async fn a_failed_response_does_not_keep_the_only_stream_from_the_retry() {
    for with_reqwest in [false, true] {
        let server = Raw::http2([Http2::EndlessFailure]).await;
        let policy = only("maxRetries: 1, initialDelay: 1ms, deadline: 30s");
        let status = if with_reqwest {
            reqwest(&policy, true)
                .get(server.url("/"))
                .send()
                .await
                .unwrap()
                .status()
        } else {
            let request = Request::get(server.url("/")).body(Full::default()).unwrap();
            hyper(&policy, true).oneshot(request).await.unwrap().status()
        };
        assert_eq!(
            (status.as_u16(), server.requests(), server.connections()),
            (200, 2, 1)
        );
    }
}

/// The body of the first attempt returned `Pending` without keeping the waker: 50 calls left 50 connections open.
#[tokio::test]
async fn a_streamed_request_that_is_retried_early_leaves_no_connection_behind() {
    let server = Raw::http1(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", false).await;
    let policy = only("maxRetries: 1, initialDelay: 1ms");
    let client = HyperClient::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build_http();
    let service = HttpLayer::new(&policy, "it").layer(client);
    for _ in 0..50 {
        // The first frame is there, the rest never comes, and the server does not wait for it.
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        sender.send("begin").unwrap();
        struct Fed(tokio::sync::mpsc::UnboundedReceiver<&'static str>);
        impl Stream for Fed {
            type Item = Result<Frame<Bytes>, std::io::Error>;
            fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                let part = std::task::ready!(self.0.poll_recv(cx));
                Poll::Ready(part.map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
            }
        }
        let request = Request::put(server.url("/"))
            .body(StreamBody::new(Fed(receiver)))
            .unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 503);
        drop(sender);
    }
    assert_eq!(server.connections(), 100);
    until("every connection is closed", || server.open() == 0).await;
}

/// A request body whose source breaks after its first part: the source is on the caller's side.
struct Breaking(bool);

impl Stream for Breaking {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let broken = std::mem::replace(&mut self.0, true);
        // Kinds that would say much of the target, if they came from there.
        let error = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
        Poll::Ready(Some(if broken {
            Err(error())
        } else {
            Ok(Bytes::from("part"))
        }))
    }
}

/// Uploads that break on their way to us counted as broken connections of the target, and opened its breaker.
#[tokio::test]
async fn an_upload_that_breaks_at_its_source_says_nothing_of_the_target() {
    let policy = only("maxRetries: 2, initialDelay: 1ms, breaker: { trip: consecutive, failures: 1 }");
    for http2 in [false, true] {
        let server = if http2 {
            Raw::http2([Http2::Silent; 9]).await
        } else {
            Raw::black_hole().await
        };
        let client = reqwest(&policy, http2);
        let upload = reqwest::Body::wrap_stream(Breaking(false));
        let error = client
            .post(server.url("/"))
            .body(upload)
            .send()
            .await
            .unwrap_err();
        assert_eq!(error.history()[0].failure, FailureKind::Cancelled, "{error:?}");
        assert_eq!(error.attempts(), 1);
        let inner = HyperClient::builder(TokioExecutor::new())
            .http2_only(http2)
            .build_http();
        let layer = HttpLayer::new(&policy, "it");
        let request = Request::post(server.url("/"))
            .body(Body::from_stream(Breaking(false)))
            .unwrap();
        let error = layer.layer(inner).oneshot(request).await.unwrap_err();
        assert_eq!(error.history()[0].failure, FailureKind::Cancelled, "{error:?}");
        assert_eq!(layer.handle().status().breaker, breaker::State::Closed);
        assert_eq!(client.handle().status().breaker, breaker::State::Closed);
    }
}

/// A body that waits for a word before it ends.
#[derive(Clone, Default)]
struct Held {
    end: Arc<AtomicBool>,
}

impl Stream for Held {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.load(Ordering::SeqCst) {
            return Poll::Ready(None);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A server counted a request as done when its head was sent, and took 200 more while 200 bodies were being sent.
#[tokio::test]
async fn a_server_counts_a_request_until_its_body_has_ended() {
    for (keys, while_sending) in [("", 503), ("holdBodies: false,", 200)] {
        let held = Held::default();
        let stream = held.clone();
        let text = format!("services: {{ shop: {{ server: {{ {keys} inFlight: 1 }} }} }}");
        let router = Router::new()
            .route("/long", get(move || async move { Body::from_stream(stream) }))
            .route("/", get(|| async { "short" }))
            .layer(ServerLayer::new(&policy(&text), "shop"));
        let server = serve(router).await;
        let client = reqwest::Client::new();
        let long = client.get(server.url("/long")).send().await.unwrap();
        assert_eq!(long.status(), 200);
        let short = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(short.status(), while_sending, "{keys}");
        held.end.store(true, Ordering::SeqCst);
        long.bytes().await.unwrap();
        let mut again = client.get(server.url("/")).send().await.unwrap().status();
        while again == 503 {
            again = client.get(server.url("/")).send().await.unwrap().status();
        }
        assert_eq!(again, 200);
    }
}

/// A handler's body that never ends held its place, its connection and its caller for ever.
#[tokio::test]
async fn a_servers_own_body_ends_with_the_deadline_of_its_request() {
    let router = Router::new()
        .route("/long", get(|| async { Body::from_stream(Held::default()) }))
        .route("/", get(|| async { "short" }))
        .layer(ServerLayer::new(
            &policy("services: { shop: { server: { inFlight: 1 } } }"),
            "shop",
        ));
    let server = serve(router).await;
    let client = reqwest::Client::new();
    let long = client
        .get(server.url("/long"))
        .header("retryguard-deadline-ms", "100")
        .send()
        .await
        .unwrap();
    assert!(long.bytes().await.is_err(), "cut off and not complete");
    let mut again = client.get(server.url("/")).send().await.unwrap().status();
    while again == 503 {
        again = client.get(server.url("/")).send().await.unwrap().status();
    }
    assert_eq!(again, 200);
}

/// The end of an attempt bounds the wait for the head. A body that came in time was cut off where it fell due.
#[tokio::test]
async fn a_body_may_come_until_the_deadline_of_the_call() {
    let held = Held::default();
    let stream = held.clone();
    let router = Router::new()
        .route("/long", get(move || async move { Body::from_stream(stream) }))
        .layer(ServerLayer::new(&policy(""), "shop"));
    let server = serve(router).await;
    let long = reqwest::Client::new()
        .get(server.url("/long"))
        .header("retryguard-deadline-ms", "2000")
        .header("retryguard-call-deadline-ms", "60000")
        .send()
        .await
        .unwrap();
    assert_eq!(long.status(), 200);
    sleep(2_100).await;
    held.end.store(true, Ordering::SeqCst);
    long.bytes().await.unwrap();
}
