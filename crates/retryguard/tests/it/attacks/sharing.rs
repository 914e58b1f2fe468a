//! State that is shared where it should be, forgotten where it should be, and not lost on the way.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use retryguard::{
    Context, Criticality, Error, Refusal, RetryGuardLayer,
    context::ContextLayer,
    for_http::{Http, HttpLayer, ReplayBody},
    for_tonic::TonicLayer,
    machines::breaker,
    protocol::Plain,
    remote::LivePolicy,
};
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::support::{
    bytes::{Http2, Raw},
    only, policy,
    scripted::{Scripted, get, status},
    time::now,
};

/// Two clients of one service each had to burn themselves, and overwrote each other's gauges.
#[tokio::test]
async fn two_clients_of_one_service_share_what_they_know() {
    let strict = only("maxRetries: 0, breaker: { trip: consecutive, failures: 1 }");
    let failing = Scripted::new([status(500)]);
    let first = HttpLayer::new(&strict, "it");
    let second = HttpLayer::new(&strict.clone(), "it");
    let other = HttpLayer::new(&strict, "another");
    first.layer(failing.clone()).oneshot(get()).await.unwrap();
    assert_eq!(second.handle().status().breaker, breaker::State::Open);
    assert_eq!(other.handle().status().breaker, breaker::State::Closed);
    let refused = second.layer(failing).oneshot(get()).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::BreakerOpen));
    // Of two policies that only look the same, each has a state of its own.
    let again = HttpLayer::new(
        &only("maxRetries: 0, breaker: { trip: consecutive, failures: 1 }"),
        "it",
    );
    assert_eq!(again.handle().status().breaker, breaker::State::Closed);
    // Once all clients are gone, nothing is remembered.
    drop((first, second));
    let fresh = HttpLayer::new(&strict, "it");
    assert_eq!(fresh.handle().status().breaker, breaker::State::Closed);
}

/// A live policy kept every layer that it ever made, and each of them with its own state.
#[tokio::test]
async fn a_live_policy_forgets_layers_that_are_dropped_and_shares_those_that_are_not() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "services: { it: { maxRetries: 1 } }").unwrap();
    let live = LivePolicy::file(file.path()).unwrap();
    let first = live.layer("it", Plain::idempotent());
    let second = live.http_layer("it", Http::new());
    let count = |layer: &RetryGuardLayer| {
        let failing = service_fn(|(): ()| async { Err::<(), _>(std::io::Error::other("no")) });
        let service = layer.layer(failing);
        async move { service.oneshot(()).await.unwrap_err() }
    };
    count(&first).await;
    assert_eq!(
        first.handle().status().budget_balance,
        second.handle().status().budget_balance
    );
    for _ in 0..10_000 {
        drop(live.layer("many", Plain::idempotent()));
        drop(live.http_layer("many", Http::new()));
        drop(live.server("many"));
    }
    assert!(live.followers() <= 3, "{}", live.followers());
}

/// A buffer makes its calls in a task of its own: deadline and criticality were lost on the way, silently.
#[tokio::test]
async fn a_buffer_above_the_layer_does_not_lose_the_context() {
    let seen: Arc<Mutex<Vec<http::HeaderMap>>> = Arc::default();
    let notes = seen.clone();
    let echo = service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        notes.lock().unwrap().push(request.headers().clone());
        async { Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default())) }
    });
    let layer = HttpLayer::new(&only("deadline: 10s"), "it");
    let mut stack = ServiceBuilder::new()
        .layer(ContextLayer)
        .buffer(4)
        .layer(layer)
        .service(echo);
    let deadline = now() + Duration::from_secs(3);
    Context::new(Some(deadline), Criticality::Sheddable)
        .scope(async {
            stack.ready().await.unwrap().call(get()).await.unwrap();
        })
        .await;
    let headers = seen.lock().unwrap().pop().unwrap();
    assert_eq!(headers["retryguard-criticality"], "sheddable");
    let left: u64 = headers["retryguard-deadline-ms"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(left <= 3000, "{left}");
}

/// What has been retried below is noted in the context that the request carries.
#[tokio::test]
async fn a_failure_that_was_retried_behind_a_buffer_is_noted() {
    let layer = HttpLayer::new(&only("maxRetries: 1, initialDelay: 1ms"), "it");
    let mut stack = ServiceBuilder::new()
        .layer(ContextLayer)
        .buffer(4)
        .layer(layer)
        .service(Scripted::new([status(503)]));
    let context = Context::new(None, Criticality::Critical);
    let seen = context.clone();
    context
        .scope(async { stack.ready().await.unwrap().call(get()).await.unwrap() })
        .await;
    assert_eq!(seen.retried(), 1);
}

/// Every refusal was UNKNOWN to a gRPC client.
#[tokio::test]
async fn grpc_clients_are_told_what_happened_in_their_own_words() {
    let server = Raw::http2([Http2::Cancelled; 9]).await;
    let channel = Endpoint::from_shared(server.url("")).unwrap().connect_lazy();
    let strict = only("maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 1m }");
    let layer = TonicLayer::new(&strict, "it", Http::new());
    let mut client = HealthClient::new(layer.layer(channel.clone()));
    let check = HealthCheckRequest::default;
    client.check(check()).await.unwrap_err();
    let open = client.check(check()).await.unwrap_err();
    assert_eq!(open.code(), Code::Unavailable);
    let source = std::error::Error::source(&open).unwrap();
    let error = source.downcast_ref::<Error<retryguard::BoxedError>>().unwrap();
    assert_eq!(error.refusal(), Some(Refusal::BreakerOpen));
    assert!(error.retry_after().is_some());

    let passed = Context::new(Some(now()), Criticality::Critical);
    let layer = TonicLayer::new(&only(""), "it", Http::new());
    let mut client = HealthClient::new(layer.layer(channel));
    let late = passed.scope(client.check(check())).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded);
    // A server that never answers.
    let hole = Raw::black_hole().await;
    let channel = Endpoint::from_shared(hole.url("")).unwrap().connect_lazy();
    let layer = TonicLayer::new(&policy("services: { it: { deadline: 50ms } }"), "it", Http::new());
    let mut client = HealthClient::new(layer.layer(channel));
    let late = client.check(check()).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded);
}
