//! The stacks that tower's users build, each made and called once: that they compile is half of the test.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full, combinators::BoxBody};
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use retryguard::{
    BoxError, Error, NetworkError, Policy, Refusal, RetryGuardLayer,
    context::ContextLayer,
    for_http::{BufferedLayer, Http, HttpLayer, ReplayBody},
    protocol::Plain,
    server::ServerLayer,
};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt,
    buffer::Buffer,
    service_fn,
    util::{BoxCloneService, BoxCloneSyncService, BoxService},
};

use crate::support::{
    only,
    scripted::{Scripted, get, status},
};

type Sent = Request<ReplayBody<Full<Bytes>>>;

fn layer() -> HttpLayer {
    HttpLayer::new(&only("maxRetries: 1, initialDelay: 1ms"), "it")
}

fn ok(_: Sent) -> std::future::Ready<Result<Response<Full<Bytes>>, BoxError>> {
    std::future::ready(Ok(Response::new(Full::default())))
}

/// What `axum`, `?` and most applications ask of an error.
fn boxed(error: impl Into<BoxError>) -> BoxError {
    error.into()
}

#[tokio::test]
async fn above_and_below_a_buffer() {
    let below = layer().layer(Buffer::new(Scripted::new([status(503), status(200)]), 4));
    assert_eq!(below.oneshot(get()).await.unwrap().status(), 200);
    let above = Buffer::new(layer().layer(Scripted::new([status(503), status(200)])), 4);
    assert_eq!(above.oneshot(get()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn over_boxed_services_and_boxed_itself() {
    let inner: BoxCloneService<Sent, Response<Full<Bytes>>, BoxError> = BoxCloneService::new(service_fn(ok));
    let outer: BoxCloneService<Request<Full<Bytes>>, Response<BoxBody<Bytes, BoxError>>, BoxError> =
        BoxCloneService::new(
            layer()
                .layer(inner)
                .map_response(|response| response.map(BoxBody::new))
                .map_err(boxed),
        );
    outer.oneshot(get()).await.unwrap();
    let sync: BoxCloneSyncService<Sent, Response<Full<Bytes>>, BoxError> =
        BoxCloneSyncService::new(service_fn(ok));
    let outer: BoxService<Request<Full<Bytes>>, u16, BoxError> = BoxService::new(
        layer()
            .layer(sync)
            .map_response(|response| response.status().as_u16())
            .map_err(boxed),
    );
    assert_eq!(outer.oneshot(get()).await.unwrap(), 200);
}

#[tokio::test]
async fn over_services_of_one_kind_of_body() {
    let whole = service_fn(|request: Request<Full<Bytes>>| async move {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let service = ServiceBuilder::new()
        .layer(layer())
        .layer(BufferedLayer::<Full<Bytes>>::new())
        .service(whole);
    let request = Request::new(Full::from("hello"));
    let answer = service.oneshot(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");

    let boxes = service_fn(|request: Request<BoxBody<Bytes, BoxError>>| async move {
        Ok::<_, BoxError>(Response::new(request.into_body()))
    });
    let service = ServiceBuilder::new()
        .layer(layer())
        .map_request(|request: Sent| request.map(BoxBody::new))
        .service(boxes);
    let answer = service.oneshot(Request::new(Full::from("hello"))).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
}

#[tokio::test]
async fn among_towers_own_layers() {
    let service = ServiceBuilder::new()
        .layer(ContextLayer)
        .buffer::<Request<Full<Bytes>>>(4)
        .concurrency_limit(4)
        .timeout(Duration::from_secs(30))
        .layer(layer())
        .concurrency_limit(2)
        .timeout(Duration::from_secs(30))
        .service(Scripted::new([status(503), status(200)]));
    assert_eq!(service.oneshot(get()).await.unwrap().status(), 200);
}

/// The types that frameworks ask for: a service that is `Clone`, `Send` and `'static`, with a future that is `Send`.
#[tokio::test]
async fn what_frameworks_ask_of_a_service() {
    fn asks<S, B>(service: S) -> S
    where
        S: Service<Request<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    {
        service
    }
    let hyper = HyperClient::builder(TokioExecutor::new()).build_http::<ReplayBody<Empty<Bytes>>>();
    asks::<_, Empty<Bytes>>(layer().layer(hyper));
    asks::<_, Full<Bytes>>(layer().layer(Scripted::new([status(200)])));
    let server =
        ServerLayer::new(&Policy::default(), "it").layer(service_fn(|_: Request<Full<Bytes>>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }));
    asks::<_, Full<Bytes>>(server).oneshot(get()).await.unwrap();
}

/// `Error<BoxError>` does not implement `Error`, because `BoxError` does not.
#[tokio::test]
async fn a_plain_service_of_boxed_errors() {
    let failing = service_fn(|(): ()| async { Err::<(), BoxError>("no".into()) });
    let layer = RetryGuardLayer::new(&only("maxRetries: 0"), "it", Plain::idempotent());
    let error = layer.layer(failing).oneshot(()).await.unwrap_err();
    let error = boxed(error.boxed());
    assert_eq!(error.source().unwrap().to_string(), "no");
}

#[tokio::test(start_paused = true)]
async fn a_function_under_a_policy() {
    let policy = only("maxRetries: 2, breaker: { trip: consecutive, failures: 3 }");
    let target = retryguard::target(&policy, "it");
    let mut runs = 0;
    let answer = retryguard::call(&target, || {
        runs += 1;
        let run = runs;
        async move {
            if run < 3 {
                Err(std::io::Error::other("no"))
            } else {
                Ok(run)
            }
        }
    })
    .await;
    assert_eq!(answer.unwrap(), 3);

    let no = || async { Err::<(), _>(std::io::Error::other("no")) };
    let once = retryguard::call(&target, no).not_idempotent().await.unwrap_err();
    assert_eq!(
        (once.attempts(), once.refusal()),
        (1, Some(Refusal::NotIdempotent))
    );
    let hopeless = retryguard::call(&target, no)
        .retry_if(|error: &std::io::Error| error.kind() == std::io::ErrorKind::TimedOut)
        .run()
        .await
        .unwrap_err();
    assert_eq!(
        (hopeless.attempts(), hopeless.refusal()),
        (1, Some(Refusal::NotRetryable))
    );
    let late = retryguard::call(&target, std::future::pending::<Result<(), std::io::Error>>)
        .deadline(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(matches!(late, Error::TimedOut { attempts: 1, .. }), "{late:?}");
    // The layer of the same service of the same policy has the same breaker.
    retryguard::call(&target, no).await.unwrap_err();
    let service = HttpLayer::new(&policy, "it").layer(Scripted::new([status(200)]));
    assert_eq!(
        service.oneshot(get()).await.unwrap_err().refusal(),
        Some(Refusal::BreakerOpen)
    );
}

/// Hooks are closures: they may know what the program knows.
#[tokio::test(start_paused = true)]
async fn hooks_take_closures() {
    let safe = String::from("/safe");
    let protocol = Http::new()
        .idempotent_when(move |_, path| path == safe)
        .errors_read_by(|error| {
            if error.to_string() == "not at home" {
                NetworkError::Connect
            } else {
                NetworkError::Other
            }
        });
    let policy = only("maxRetries: 1, initialDelay: 1ms");
    for (path, text, attempts) in [
        ("/safe", "broken", 2),
        ("/other", "broken", 1),
        ("/other", "not at home", 2),
    ] {
        let failing =
            service_fn(
                move |_: Sent| async move { Err::<Response<Full<Bytes>>, _>(std::io::Error::other(text)) },
            );
        let service = HttpLayer::with(policy.service("it"), protocol.clone()).layer(failing);
        let request = Request::post(path).body(Full::default()).unwrap();
        let error = service.oneshot(request).await.unwrap_err();
        assert_eq!(error.attempts(), attempts, "{path} {text}");
    }
}
