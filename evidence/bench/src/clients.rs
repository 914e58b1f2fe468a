//! The clients that users have: reqwest and tonic, alone, under their own middleware, and under ours.
//!
//! No network: a GET of reqwest is answered where it would be sent, and a call of tonic goes over a pipe within the process,
//! with its server in the same thread.

use std::{
    future::{Ready, ready},
    hint::black_box,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use ::http::Extensions;
use hyper_util::rt::TokioIo;
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use retryguard::{
    Policy, RetryGuardLayer,
    for_http::Http,
    for_reqwest::{Reqwest, Tagged},
    for_tonic::TonicLayer,
};
use tokio::io::DuplexStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Caller, Subject,
    service::{drive, waker},
};

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
            "reqwest-bare",
            "retryguard-bench",
            "a GET of reqwest, answered at once",
            None,
            || Box::new(|| reqwest_calls(Answering)),
        ),
        subject(
            "reqwest-retry",
            "reqwest-retry",
            "a GET of reqwest through reqwest-middleware with exponential back-off",
            None,
            reqwest_retry,
        ),
        subject(
            "reqwest",
            "retryguard",
            "a GET of reqwest under the default policy",
            Some("reqwest-retry"),
            || {
                let protocol = Reqwest::new(Http::new());
                let layer = RetryGuardLayer::new(&Policy::default(), "bench", protocol);
                Box::new(move || reqwest_calls(Untagged(layer.layer(Answering))))
            },
        ),
        subject(
            "tonic-channel",
            "tonic",
            "a unary call over tonic's channel with its own timeout and concurrency limit",
            None,
            || Box::new(|| tonic_calls(|channel| channel)),
        ),
        subject(
            "tonic",
            "retryguard",
            "the same under `TonicLayer` and the default policy",
            Some("tonic-channel"),
            || {
                let layer = TonicLayer::new(&Policy::default(), "bench", Http::new());
                Box::new(move || {
                    let layer = layer.clone();
                    tonic_calls(move |channel| layer.layer(channel))
                })
            },
        ),
    ]
}

/// Answers every request of reqwest at once with 200 and nothing.
#[derive(Debug, Clone, Copy)]
struct Answering;

fn answer(request: reqwest::Request) -> reqwest::Response {
    drop(black_box(request));
    ::http::Response::new("").into()
}

impl Service<reqwest::Request> for Answering {
    type Response = reqwest::Response;
    type Error = reqwest::Error;
    type Future = Ready<Result<reqwest::Response, reqwest::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: reqwest::Request) -> Self::Future {
        ready(Ok(answer(request)))
    }
}

/// The last middleware: what comes after it would be the network.
impl Middleware for Answering {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: reqwest::Request,
        _: &'e mut Extensions,
        _: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = reqwest_middleware::Result<reqwest::Response>> + Send + 'f>>
    where
        's: 'f,
        'e: 'f,
        'n: 'f,
        Self: 'f,
    {
        Box::pin(ready(Ok(answer(request))))
    }
}

/// A service for requests without words of the application.
struct Untagged<S>(S);

impl<S: Service<Tagged>> Service<reqwest::Request> for Untagged<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: reqwest::Request) -> S::Future {
        self.0.call(request.into())
    }
}

/// The same address and headers as the GET of the HTTP layer. It is cloned for every call of every subject.
fn get() -> reqwest::Request {
    reqwest::Client::new()
        .get("http://payments.internal/accounts/7")
        .header("accept", "application/json")
        .header("user-agent", "bench/1")
        .header("authorization", "Bearer 7")
        .build()
        .expect("a good request")
}

fn reqwest_calls<S>(mut service: S) -> Caller
where
    S: Service<reqwest::Request> + Send + 'static,
{
    let request = get();
    Box::new(move |calls| {
        let waker = waker();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..calls {
            let request = request.try_clone().expect("without a body");
            let future = pin!(service.call(black_box(request)));
            assert!(drive(&mut cx, future).is_ok(), "always succeeds");
        }
    })
}

fn reqwest_retry() -> Box<dyn Fn() -> Caller> {
    let policy = ExponentialBackoff::builder().build_with_max_retries(2);
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(RetryTransientMiddleware::new_with_policy(policy))
        .with(Answering)
        .build();
    Box::new(move || {
        let (client, request) = (client.clone(), get());
        Box::new(move |calls| {
            let waker = waker();
            let mut cx = Context::from_waker(&waker);
            for _ in 0..calls {
                let request = request.try_clone().expect("without a body");
                let future = pin!(client.execute(black_box(request)));
                assert!(drive(&mut cx, future).is_ok(), "always succeeds");
            }
        })
    })
}

/// Calls tonic's health service. Client and server share a thread, so that what one of them waits for is done by the other.
fn tonic_calls<S>(wrap: impl FnOnce(Channel) -> S + Send + 'static) -> Caller
where
    S: tonic::client::GrpcService<tonic::body::Body, Error: Into<tonic::codegen::StdError>> + Send + 'static,
    S::ResponseBody: tonic::codegen::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<tonic::codegen::StdError> + Send,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let (near, far) = tokio::io::duplex(64 * 1024);
    let channel = {
        let _inside = runtime.enter();
        let (_, health) = tonic_health::server::health_reporter();
        runtime.spawn(
            Server::builder()
                .add_service(health)
                .serve_with_incoming(OnePipe(Some(far))),
        );
        let near = Arc::new(Mutex::new(Some(TokioIo::new(near))));
        Endpoint::from_static("http://in.process")
            .timeout(Duration::from_secs(10))
            .concurrency_limit(100)
            .connect_with_connector_lazy(tower::service_fn(move |_: ::http::Uri| {
                let pipe = near.lock().expect("no thread panics").take();
                ready(pipe.ok_or_else(|| std::io::Error::other("there is one pipe")))
            }))
    };
    let mut client = HealthClient::new(wrap(channel));
    Box::new(move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                let answered = client.check(HealthCheckRequest::default()).await;
                assert!(answered.is_ok(), "always succeeds: {answered:?}");
            }
        });
    })
}

/// The one connection of a server.
struct OnePipe(Option<DuplexStream>);

impl tonic::codegen::tokio_stream::Stream for OnePipe {
    type Item = std::io::Result<DuplexStream>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Never the end, with which the server would stop.
        match self.0.take() {
            Some(pipe) => Poll::Ready(Some(Ok(pipe))),
            None => Poll::Pending,
        }
    }
}
