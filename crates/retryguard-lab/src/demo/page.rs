//! The page: one self-contained document and a stream of frames, served from the binary.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use http::header;
use http_body::Frame as BodyFrame;
use tokio::sync::watch;

use super::Frame;
use crate::{
    answer::{unknown_path, wrong_method},
    system::{Life, Port},
};

const PAGE: &str = include_str!("page.html");

/// Nothing but what is in the document itself, and its own stream.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn serve(
    wanted: SocketAddr,
    frames: watch::Receiver<Frame>,
    life: &Life,
) -> anyhow::Result<SocketAddr> {
    let port = Port::open(wanted).await?;
    let address = port.address;
    let routes = Router::new()
        .route("/", get(document))
        .route("/events", get(events))
        .route("/frame.json", get(frame))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(frames);
    port.serve(routes, life);
    Ok(address)
}

async fn document() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, PAGE).into_response()
}

async fn frame(State(frames): State<watch::Receiver<Frame>>) -> Json<Frame> {
    Json(frames.borrow().clone())
}

async fn events(State(frames): State<watch::Receiver<Frame>>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let stream = Stream {
        next: Box::pin(next(frames, true)),
    };
    (headers, Body::new(stream)).into_response()
}

type Next = Pin<Box<dyn Future<Output = (Bytes, watch::Receiver<Frame>, bool)> + Send>>;

/// Server-sent events: the present frame at once, then every new one.
struct Stream {
    next: Next,
}

async fn next(mut frames: watch::Receiver<Frame>, first: bool) -> (Bytes, watch::Receiver<Frame>, bool) {
    let open = first || frames.changed().await.is_ok();
    let text = serde_json::to_string(&*frames.borrow_and_update()).unwrap_or_default();
    (Bytes::from(format!("data: {text}\n\n")), frames, open)
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let (bytes, frames, open) = std::task::ready!(self.next.as_mut().poll(cx));
        if open {
            self.next = Box::pin(next(frames, false));
            return Poll::Ready(Some(Ok(BodyFrame::data(bytes))));
        }
        // Nothing new will come: the stream stays open, or the browser would ask again and again.
        self.next = Box::pin(std::future::pending());
        Poll::Pending
    }
}
