//! A gRPC pair over loopback, with the health service as the ready-made interface.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures_core::Stream;
use retryguard::{
    Policy, TargetHandle, for_http::Http, for_tonic::TonicLayer, for_tonic::TonicService, server::ServerLayer,
};
use tokio::task::JoinHandle;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use tower::Layer;

use crate::support::{loopback::listen, only, time::sleep};

/// A stream of results, of which a unary call gives the first.
type Answer = Vec<Result<i32, Code>>;

/// Answers by a script.
#[derive(Clone, Default)]
struct Scripted {
    script: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<tonic::metadata::MetadataMap>>>,
    /// How long a check takes.
    millis: u64,
}

type Messages = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

impl Scripted {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            ..Self::default()
        }
    }

    fn next<T>(&self, request: &Request<T>) -> Vec<Result<HealthCheckResponse, Status>> {
        self.seen.lock().unwrap().push(request.metadata().clone());
        let answer = self
            .script
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or_else(|| vec![Ok(1)]);
        let message = |result: Result<i32, Code>| {
            result
                .map(|status| HealthCheckResponse { status })
                .map_err(|code| Status::new(code, "scripted"))
        };
        answer.into_iter().map(message).collect()
    }

    fn attempts(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

#[tonic::async_trait]
impl Health for Scripted {
    type WatchStream = Messages;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let answer = self.next(&request).remove(0);
        if self.millis > 0 {
            sleep(self.millis).await;
        }
        answer.map(Response::new)
    }

    /// Headers first, so that a failure comes in the trailers.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Messages>, Status> {
        struct Items(std::vec::IntoIter<Result<HealthCheckResponse, Status>>);
        impl Stream for Items {
            type Item = Result<HealthCheckResponse, Status>;

            fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(self.0.next())
            }
        }
        Ok(Response::new(Box::pin(Items(self.next(&request).into_iter()))))
    }
}

struct Pair {
    client: HealthClient<TonicService<Channel>>,
    handle: TargetHandle,
    server: JoinHandle<()>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn pair(policy: &Policy, service: &Scripted, protocol: Http) -> Pair {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let health = HealthServer::new(service.clone());
    let layer = ServerLayer::new(policy, "it");
    let server = tokio::spawn(async move {
        Server::builder()
            .layer(layer)
            .add_service(health)
            .serve_with_incoming(TcpIncoming::from(listener))
            .await
            .unwrap();
    });
    let channel = Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy();
    let layer = TonicLayer::new(policy, "it", protocol);
    Pair {
        client: HealthClient::new(layer.layer(channel)),
        handle: layer.handle(),
        server,
    }
}

/// Everything may be done twice.
fn idempotent() -> Http {
    Http::new().idempotent_when(|_, path| path.starts_with("/grpc.health.v1.Health/"))
}

fn quick() -> Policy {
    only("maxRetries: 2, initialDelay: 1ms")
}

fn ask() -> HealthCheckRequest {
    HealthCheckRequest {
        service: "it".to_owned(),
    }
}

#[tokio::test]
async fn an_unavailable_target_is_retried_until_it_answers() {
    let service = Scripted::new([
        vec![Err(Code::Unavailable)],
        vec![Err(Code::Unavailable)],
        vec![Ok(1)],
    ]);
    let mut pair = pair(&quick(), &service, idempotent()).await;
    assert_eq!(pair.client.check(ask()).await.unwrap().into_inner().status, 1);
    let seen = service.seen.lock().unwrap().clone();
    let attempts: Vec<_> = seen
        .iter()
        .map(|seen| {
            seen.get("retryguard-attempt")
                .map(|value| value.to_str().unwrap())
        })
        .collect();
    // A server takes an attempt without a number for the first.
    assert_eq!(attempts, [None, Some("2"), Some("3")]);
    assert_eq!(pair.handle.status().in_flight, 0);
}

#[tokio::test]
async fn a_failure_that_comes_in_the_trailers_is_retried_too() {
    let service = Scripted::new([vec![Err(Code::Unavailable)], vec![Ok(1), Ok(2)]]);
    let mut pair = pair(&quick(), &service, idempotent()).await;
    let mut stream = pair.client.watch(ask()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status, 1);
    assert_eq!(stream.message().await.unwrap().unwrap().status, 2);
    assert_eq!(stream.message().await.unwrap(), None);
    assert_eq!(service.attempts(), 2);
}

#[tokio::test]
async fn a_stream_that_has_begun_passes_with_whatever_comes_of_it() {
    let service = Scripted::new([vec![Ok(1), Err(Code::Unavailable)]]);
    let mut pair = pair(&quick(), &service, idempotent()).await;
    let mut stream = pair.client.watch(ask()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status, 1);
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(service.attempts(), 1, "its messages were already handed on");
}

#[tokio::test]
async fn an_empty_stream_passes() {
    let service = Scripted::new([vec![]]);
    let mut pair = pair(&quick(), &service, idempotent()).await;
    let mut stream = pair.client.watch(ask()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), None);
    assert_eq!(service.attempts(), 1);
}

/// gRPC sends everything as POST: nothing is retried unless the caller says that it may be.
#[tokio::test]
async fn what_is_not_declared_idempotent_is_not_retried() {
    let service = Scripted::new([vec![Err(Code::Unavailable)]]);
    let mut pair = pair(&quick(), &service, Http::new()).await;
    assert_eq!(
        pair.client.check(ask()).await.unwrap_err().code(),
        Code::Unavailable
    );
    assert_eq!(service.attempts(), 1);
}

#[tokio::test]
async fn a_failure_of_the_request_is_not_retried() {
    for code in [Code::InvalidArgument, Code::NotFound, Code::PermissionDenied] {
        let service = Scripted::new([vec![Err(code)], vec![Err(code)]]);
        let mut pair = pair(&quick(), &service, idempotent()).await;
        assert_eq!(pair.client.check(ask()).await.unwrap_err().code(), code);
        assert_eq!(
            pair.client
                .watch(ask())
                .await
                .unwrap()
                .into_inner()
                .message()
                .await
                .unwrap_err()
                .code(),
            code
        );
        assert_eq!(service.attempts(), 2);
    }
}

#[tokio::test]
async fn the_last_failure_is_handed_on_whole() {
    let service = Scripted::new(std::iter::repeat_n(vec![Err(Code::ResourceExhausted)], 3));
    let mut pair = pair(&quick(), &service, idempotent()).await;
    let status = pair.client.check(ask()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "scripted")
    );
    assert_eq!(service.attempts(), 3);
}

#[tokio::test]
async fn a_refusal_says_why_in_the_status() {
    let service = Scripted::new(std::iter::repeat_n(vec![Err(Code::Unavailable)], 2));
    let policy = only("maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 1h }");
    let mut pair = pair(&policy, &service, idempotent()).await;
    pair.client.check(ask()).await.unwrap_err();
    let refused = pair.client.check(ask()).await.unwrap_err();
    assert!(refused.to_string().contains("breaker-open"), "{refused}");
    assert_eq!(service.attempts(), 1);
}

#[tokio::test]
async fn a_connection_that_is_refused_is_retried_whatever_the_request() {
    let service = Scripted::new([]);
    let mut pair = pair(
        &only("maxRetries: 2, initialDelay: 1ms, deadline: 5s"),
        &service,
        Http::new(),
    )
    .await;
    pair.server.abort();
    while !pair.server.is_finished() {
        sleep(1).await;
    }
    let refused = pair.client.check(ask()).await.unwrap_err();
    assert!(format!("{refused:?}").contains("attempts: 3"), "{refused:?}");
}

#[tokio::test]
async fn the_callers_grpc_timeout_bounds_the_call_and_shrinks_on_the_way() {
    let service = Scripted::new([vec![Err(Code::Unavailable)], vec![Ok(1)]]);
    let mut pair = pair(&only("maxRetries: 1, initialDelay: 20ms"), &service, idempotent()).await;
    let mut request = Request::new(ask());
    request.set_timeout(std::time::Duration::from_secs(5));
    pair.client.check(request).await.unwrap();
    let seen = service.seen.lock().unwrap().clone();
    let left = |attempt: usize| -> u64 {
        seen[attempt]
            .get("retryguard-deadline-ms")
            .unwrap()
            .to_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    assert!(left(0) <= 5_000);
    assert!(left(1) + 20 <= left(0), "{} then {}", left(0), left(1));
    // A server that does not know our tag reads gRPC's own, which must not promise more.
    let own = seen[1].get("grpc-timeout").unwrap().to_str().unwrap();
    assert_eq!(own, format!("{}m", left(1)));
}

/// The client layer and the server layer of two gRPC programs understand each other.
#[tokio::test]
async fn a_server_that_sheds_is_left_alone() {
    let service = Scripted {
        millis: 100,
        ..Scripted::default()
    };
    let policy = only(
        "maxRetries: 2, initialDelay: 1ms, gate: { scope: retries }, server: { inFlight: 1, exempt: [] }, \
         budget: { percent: 100%, interval: 1h, minRetryRate: { count: 0 } }",
    );
    let pair = pair(&policy, &service, idempotent()).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut client = pair.client.clone();
            tokio::spawn(async move { client.check(ask()).await.map_err(|status| status.code()) })
        })
        .collect();
    let mut served = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => served += 1,
            Err(code) => assert_eq!(code, Code::ResourceExhausted),
        }
    }
    assert!(
        (1..20).contains(&served),
        "{served} of 20 were served, one at a time"
    );
    let left = pair.handle.status().budget_balance;
    assert_eq!(left, Some(20), "no retry was paid for");
}

#[tokio::test]
async fn a_call_whose_deadline_has_passed_is_not_sent() {
    let service = Scripted::new([]);
    let mut pair = pair(&quick(), &service, idempotent()).await;
    let mut request = Request::new(ask());
    request
        .metadata_mut()
        .insert("grpc-timeout", "0n".parse().unwrap());
    let late = pair.client.check(request).await.unwrap_err();
    assert_eq!(service.attempts(), 0, "{late}");
}
