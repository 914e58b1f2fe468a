//! Request bodies over real HTTP: what is sent again, what is not, and that nothing is half-sent.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use axum::{Router, body::Bytes, http::HeaderMap, http::StatusCode, routing::any};
use futures_core::Stream;
use http::Request;
use http_body::Frame;
use http_body_util::{Full, StreamBody, combinators::BoxBody};
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use retryguard::{
    Error, Policy, Refusal, Report,
    for_http::{HttpLayer, HttpService, ReplayBody, tags::ATTEMPT},
    for_reqwest::Client,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    loopback::{Served, listen, serve},
    only,
    time::sleep,
};

type Body = BoxBody<Bytes, std::io::Error>;
type Hyper = HyperClient<hyper_util::client::legacy::connect::HttpConnector, ReplayBody<Body>>;

/// What a server has received, and how many requests it fails.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(HeaderMap, Bytes)>>>);

impl Received {
    async fn serve(&self, failures: usize) -> Served {
        let received = self.0.clone();
        let handler = move |headers: HeaderMap, body: Bytes| async move {
            let mut received = received.lock().unwrap();
            received.push((headers, body));
            if received.len() <= failures {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::OK
            }
        };
        serve(Router::new().route("/", any(handler))).await
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(_, body)| body.clone())
            .collect()
    }

    fn headers(&self, name: &str) -> Vec<String> {
        let received = self.0.lock().unwrap();
        let text = |headers: &HeaderMap| {
            headers
                .get(name)
                .map_or("", |value| value.to_str().unwrap())
                .to_owned()
        };
        received.iter().map(|(headers, _)| text(headers)).collect()
    }
}

fn quick(more: &str) -> Policy {
    only(&format!("maxRetries: 2, initialDelay: 1ms, {more}"))
}

fn hyper(policy: &Policy) -> HttpService<Hyper> {
    let client: Hyper = HyperClient::builder(TokioExecutor::new()).build_http();
    HttpLayer::new(policy, "it").layer(client)
}

/// A body of unknown length, one frame for each part.
fn streamed(parts: &[&'static str]) -> Body {
    let (sender, body) = fed();
    for part in parts {
        sender.send(part).unwrap();
    }
    body
}

/// A body whose frames are sent while it is read.
fn fed() -> (UnboundedSender<&'static str>, Body) {
    struct Parts(UnboundedReceiver<&'static str>);
    impl Stream for Parts {
        type Item = Result<Frame<Bytes>, std::io::Error>;

        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.poll_recv(cx).map(|part| match part? {
                "broken" => Some(Err(std::io::Error::other("the source of the body broke"))),
                part => Some(Ok(Frame::data(Bytes::from_static(part.as_bytes())))),
            })
        }
    }
    let (sender, receiver) = unbounded_channel();
    (sender, BoxBody::new(StreamBody::new(Parts(receiver))))
}

fn put(server: &Served, body: Body) -> Request<Body> {
    Request::put(server.url("/")).body(body).unwrap()
}

fn post(url: &str, body: &'static str) -> Request<Body> {
    let body = http_body_util::BodyExt::map_err(Full::from(body), |never| match never {});
    Request::post(url).body(BoxBody::new(body)).unwrap()
}

#[tokio::test]
async fn a_streamed_body_is_sent_again_whole() {
    let received = Received::default();
    let server = received.serve(2).await;
    let request = put(&server, streamed(&["one ", "two ", "three"]));
    let response = hyper(&quick("")).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(received.bodies(), ["one two three"; 3]);
    // A server takes an attempt without a number for the first.
    assert_eq!(received.headers(ATTEMPT.as_str()), ["", "2", "3"]);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_sent_once_and_whole() {
    let received = Received::default();
    let server = received.serve(1).await;
    let request = put(&server, streamed(&["12345", "6789", "0"]));
    let response = hyper(&quick("replayLimit: 9")).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 503);
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!(
        (report.attempts, report.failed.unwrap().1),
        (1, Refusal::NotReplayable)
    );
    assert_eq!(received.bodies(), ["1234567890"]);
}

/// A server that answers before the body is there leaves the first attempt half-sent.
#[tokio::test]
async fn a_half_sent_body_is_begun_anew() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let (parts, body) = fed();
    parts.send("one ").unwrap();
    let server = tokio::spawn(async move {
        let (mut hasty, _) = listener.accept().await.unwrap();
        read_until(&mut hasty, "one ").await;
        let refusal = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        hasty.write_all(refusal).await.unwrap();
        let (mut patient, _) = listener.accept().await.unwrap();
        let mut text = read_until(&mut patient, "one ").await;
        parts.send("two ").unwrap();
        parts.send("three").unwrap();
        drop(parts);
        text += &read_until(&mut patient, "0\r\n\r\n").await;
        patient
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        text
    });
    let request = Request::put(format!("http://{address}/")).body(body).unwrap();
    let response = hyper(&quick("")).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let text = server.await.unwrap();
    let chunks = "4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n";
    assert!(text.ends_with(chunks), "{text}");
}

async fn read_until(connection: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push(char::from(connection.read_u8().await.unwrap()));
    }
    text
}

/// A body that is still on its way cannot be sent twice at once. That must not cost the call its retry.
#[tokio::test]
async fn a_slow_upload_is_not_hedged_and_still_retried() {
    let received = Received::default();
    let server = received.serve(1).await;
    let (parts, body) = fed();
    let call = tokio::spawn(hyper(&quick("hedge: { after: 20ms, most: 1 }")).oneshot(put(&server, body)));
    parts.send("one ").unwrap();
    sleep(100).await;
    parts.send("two").unwrap();
    drop(parts);
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert_eq!(received.bodies(), ["one two"; 2]);
}

#[tokio::test]
async fn a_hedge_sends_the_whole_body_beside_the_first_attempt() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = received.clone();
    let handler = move |headers: HeaderMap, body: Bytes| async move {
        seen.lock().unwrap().push(body);
        if headers[ATTEMPT] == "1" {
            std::future::pending::<()>().await;
        }
    };
    let server = serve(Router::new().route("/", any(handler))).await;
    let policy = quick("hedge: { after: 50ms, most: 1 }");
    let request = put(&server, streamed(&["one ", "two ", "three"]));
    assert_eq!(hyper(&policy).oneshot(request).await.unwrap().status(), 200);
    assert_eq!(*received.lock().unwrap(), ["one two three"; 2]);
}

#[tokio::test]
async fn a_body_whose_source_broke_is_not_sent_again() {
    let received = Received::default();
    let server = received.serve(0).await;
    let error = hyper(&quick(""))
        .oneshot(put(&server, streamed(&["one ", "broken"])))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Failed {
                attempts: 1,
                refusal: Refusal::NotRetryable,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_post_without_a_key_is_sent_once() {
    let received = Received::default();
    let server = received.serve(1).await;
    let response = hyper(&quick(""))
        .oneshot(post(&server.url("/"), "pay"))
        .await
        .unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.extensions().get::<Report>().unwrap().failed.unwrap().1,
        Refusal::NotIdempotent
    );
    assert_eq!(received.bodies(), ["pay"]);
}

#[tokio::test]
async fn a_key_is_kept_across_retries() {
    let received = Received::default();
    let server = received.serve(2).await;
    let mut request = post(&server.url("/"), "pay");
    request
        .headers_mut()
        .insert("idempotency-key", "\"7\"".parse().unwrap());
    assert_eq!(hyper(&quick("")).oneshot(request).await.unwrap().status(), 200);
    assert_eq!(received.bodies(), ["pay"; 3]);
    assert_eq!(received.headers("idempotency-key"), ["\"7\""; 3]);
}

#[tokio::test]
async fn a_key_that_the_layer_adds_is_one_for_each_call() {
    let received = Received::default();
    let server = received.serve(2).await;
    let mut service = hyper(&quick("idempotency: { addKeys: true }"));
    for _ in 0..2 {
        let response = service
            .ready()
            .await
            .unwrap()
            .call(post(&server.url("/"), "pay"))
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
    }
    let keys = received.headers("idempotency-key");
    assert_eq!(keys.len(), 4);
    assert!(
        keys[0].len() == 34 && keys[1] == keys[0] && keys[2] == keys[0],
        "{keys:?}"
    );
    assert!(keys[3] != keys[0], "another call has another key");
}

/// A request that certainly never left may be sent again, whatever it is.
#[tokio::test]
async fn a_post_is_sent_again_where_the_connection_was_refused() {
    let closed = listen().await.local_addr().unwrap();
    let url = format!("http://{closed}/");
    let error = hyper(&quick("")).oneshot(post(&url, "pay")).await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (3, Some(Refusal::AttemptsUsed))
    );
    let client = Client::new(&quick(""), "it").unwrap();
    let request = client
        .request(reqwest::Method::POST, &url)
        .body("pay")
        .build()
        .unwrap();
    let error = client.execute(request).await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (3, Some(Refusal::AttemptsUsed))
    );
}

/// A connection that broke may have carried the request.
#[tokio::test]
async fn a_post_is_not_sent_again_where_the_connection_broke() {
    let listener = listen().await;
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let accepted = Arc::new(Mutex::new(0));
    let counted = accepted.clone();
    let server = tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            *counted.lock().unwrap() += 1;
            let mut some = [0; 16];
            let _ = connection.read(&mut some).await;
        }
    });
    let client = Client::new(&quick(""), "it").unwrap();
    let post = client
        .request(reqwest::Method::POST, &url)
        .body("pay")
        .build()
        .unwrap();
    let error = client.execute(post).await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (1, Some(Refusal::NotIdempotent))
    );
    assert_eq!(*accepted.lock().unwrap(), 1);
    let error = client.get(&url).await.unwrap_err();
    assert_eq!(error.attempts(), 3, "a GET may be done twice");
    assert_eq!(*accepted.lock().unwrap(), 4);
    server.abort();
}

#[tokio::test]
async fn reqwest_sends_bodies_in_memory_again_and_streams_once() {
    let received = Received::default();
    let server = received.serve(1).await;
    let client = Client::new(&quick(""), "it").unwrap();
    let in_memory = client
        .request(reqwest::Method::PUT, server.url("/"))
        .body("kept")
        .build()
        .unwrap();
    assert_eq!(client.execute(in_memory).await.unwrap().status(), 200);
    assert_eq!(received.bodies(), ["kept"; 2]);

    let received = Received::default();
    let server = received.serve(1).await;
    let stream = reqwest::Body::wrap(streamed(&["one ", "two"]));
    let streaming = client
        .request(reqwest::Method::PUT, server.url("/"))
        .body(stream)
        .build()
        .unwrap();
    let response = client.execute(streaming).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.extensions().get::<Report>().unwrap().failed.unwrap().1,
        Refusal::NotReplayable
    );
    assert_eq!(received.bodies(), ["one two"]);
}

#[tokio::test]
async fn an_address_that_is_none_is_a_failure_of_the_request() {
    let client = Client::new(&quick(""), "it").unwrap();
    let error = client.get("no address").await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (0, Some(Refusal::NotRetryable))
    );
    assert!(error.to_string().contains("correct the request"), "{error}");
}
