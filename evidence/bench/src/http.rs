//! The path that users take: a GET through the HTTP layer, and a request through the server layer.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    pin::Pin,
    pin::pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame};
use retryguard::{Policy, for_http::HttpLayer, server::ServerLayer};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Caller, Subject,
    service::{drive, waker},
};

/// The names of the two subjects that are gated.
pub const HTTP_CLIENT: &str = "http";
/// The server's.
pub const HTTP_SERVER: &str = "server";

pub(crate) fn subjects() -> Vec<Subject> {
    let subject = |name, package, what, peer, target| Subject {
        name,
        package,
        what,
        peer,
        target,
    };
    vec![
        subject(
            "http-bare",
            "retryguard-bench",
            "a GET at the bare HTTP service",
            None,
            || Box::new(|| calls_of(Origin)),
        ),
        subject(
            HTTP_CLIENT,
            "retryguard",
            "a GET through `HttpLayer` under the default policy",
            Some("tower-http"),
            || {
                let layer = HttpLayer::new(&Policy::default(), "bench");
                Box::new(move || calls_of(layer.layer(Origin)))
            },
        ),
        subject(
            HTTP_SERVER,
            "retryguard",
            "a request through `ServerLayer` under the default policy",
            Some("tower-server"),
            || {
                let layer = ServerLayer::new(&Policy::default(), "bench");
                Box::new(move || calls_of(layer.layer(Origin)))
            },
        ),
    ]
}

/// A body of nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// Answers every request at once with 200 and nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin;

impl<B> Service<Request<B>> for Origin {
    type Response = Response<Nothing>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Nothing>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        drop(black_box(request));
        ready(Ok(Response::new(Nothing)))
    }
}

/// A GET as a client sends it: an address and three headers.
fn get() -> Request<Nothing> {
    let mut request = Request::new(Nothing);
    *request.uri_mut() = http::Uri::from_static("http://payments.internal/accounts/7");
    let headers = request.headers_mut();
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(http::header::USER_AGENT, HeaderValue::from_static("bench/1"));
    headers.insert(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer 7"));
    request
}

/// Calls a service. Making the request is part of every subject, the bare one included.
pub(crate) fn calls_of<S>(mut service: S) -> Caller
where
    S: Service<Request<Nothing>> + Send + 'static,
{
    Box::new(move |calls| {
        let waker = waker();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..calls {
            let ready = service.poll_ready(&mut cx);
            assert!(matches!(ready, Poll::Ready(Ok(()))), "always ready");
            let future = pin!(service.call(black_box(get())));
            assert!(drive(&mut cx, future).is_ok(), "always succeeds");
        }
    })
}
