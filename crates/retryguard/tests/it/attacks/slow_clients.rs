//! Clients that send or read slowly must not hold every place of a server.

use axum::{
    Router,
    body::{Body, Bytes},
    routing::{get, post},
};
use futures_core::Stream;
use retryguard::server::ServerLayer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    loopback::{Served, serve},
    policy,
    time::sleep,
};

const PLACES: usize = 40;

/// A body without an end, in parts that fill the buffers of a connection soon.
struct Endless;

impl Stream for Endless {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Ok(Bytes::from_static(&[0; 65_536]))))
    }
}

async fn server(keys: &str) -> Served {
    let text = format!("services: {{ shop: {{ server: {{ inFlight: {PLACES}, {keys} }} }} }}");
    let router = Router::new()
        .route(
            "/upload",
            post(|body: Bytes| async move { body.len().to_string() }),
        )
        .route("/download", get(|| async { Body::from_stream(Endless) }))
        .route("/", get(|| async { "here" }))
        .layer(ServerLayer::new(&policy(&text), "shop"));
    serve(router).await
}

/// Sends the head of a request and the first byte of its body, and then nothing.
async fn slow_upload(server: &Served) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /upload HTTP/1.1\r\nhost: it\r\ncontent-length: 1000\r\n\r\nx";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Asks for a long answer and reads nothing of it.
async fn slow_download(server: &Served) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "GET /download HTTP/1.1\r\nhost: it\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The head has come, so the request holds a place.
    assert!(stream.read_u8().await.is_ok());
    stream
}

async fn status(server: &Served) -> u16 {
    let client = reqwest::Client::new();
    let response = client.get(server.url("/")).send().await.unwrap();
    response.status().as_u16()
}

/// Asks until the answer is `wanted`. The bound is far above what a passing run needs.
async fn until(server: &Served, wanted: u16) {
    for _ in 0..3_000 {
        if status(server).await == wanted {
            return;
        }
        sleep(10).await;
    }
    panic!("the answer never was {wanted}");
}

/// 200 clients that sent a byte and waited held every place for as long as they liked.
#[tokio::test]
async fn slow_uploads_give_their_places_to_others() {
    let server = server("fullTimeout: 500ms").await;
    let mut slow = Vec::new();
    for _ in 0..PLACES {
        slow.push(slow_upload(&server).await);
    }
    until(&server, 503).await;
    // They are all still connected.
    until(&server, 200).await;
    let mut answer = vec![0; 12];
    slow[0].read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 503");
}

#[tokio::test]
async fn slow_readers_give_their_places_to_others() {
    let server = server("fullTimeout: 500ms").await;
    let mut slow = Vec::new();
    for _ in 0..PLACES {
        slow.push(slow_download(&server).await);
    }
    // All places are held. A request is refused until the readers have taken nothing for long enough.
    until(&server, 200).await;
    // Nothing was cut: the readers can go on.
    let mut part = vec![0; 1_000_000];
    slow[0].read_exact(&mut part).await.unwrap();
}

/// What the timeout is for: without it the door stays closed.
#[tokio::test]
async fn without_the_timeout_slow_clients_keep_a_server_full() {
    let server = server("fullTimeout: off").await;
    let mut slow = Vec::new();
    for _ in 0..PLACES / 2 {
        slow.push(slow_upload(&server).await);
        slow.push(slow_download(&server).await);
    }
    until(&server, 503).await;
    for _ in 0..20 {
        assert_eq!(status(&server).await, 503);
        sleep(100).await;
    }
    drop(slow);
    until(&server, 200).await;
}

/// While there is room, a slow request is served to its end.
#[tokio::test]
async fn a_slow_upload_is_not_cut_while_there_is_room() {
    let server = server("fullTimeout: 100ms").await;
    let mut slow = slow_upload(&server).await;
    for _ in 0..9 {
        sleep(100).await;
        slow.write_all(&[b'x'; 111]).await.unwrap();
        assert_eq!(status(&server).await, 200);
    }
    let mut answer = vec![0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200");
}
