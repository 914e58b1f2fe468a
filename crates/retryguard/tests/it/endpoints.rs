//! Several endpoints of one service, over real connections and under paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use retryguard::{
    Policy,
    endpoints::{EndpointStatus, Endpoints, TooManyEndpoints},
    for_http::{BaseUri, HttpEndpoints, ReplayBody},
    for_reqwest::{Client, EndpointError},
    protocol::Plain,
};
use tower::{ServiceExt, service_fn, util::BoxCloneService};

use crate::support::{
    loopback::{Served, listen, serve},
    only,
    time::sleep,
};

type Body = Full<Bytes>;
type Hyper = HyperClient<HttpConnector, ReplayBody<Body>>;

/// A server that counts what reaches it, and answers 503 while it is broken.
#[derive(Clone, Default)]
struct Replica {
    broken: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Replica {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn router(&self) -> Router {
        let replica = self.clone();
        let answer = move || {
            let replica = replica.clone();
            async move {
                replica.asked.fetch_add(1, Ordering::SeqCst);
                if replica.broken.load(Ordering::SeqCst) {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::OK
                }
            }
        };
        Router::new().route("/", get(answer))
    }
}

struct Three {
    replicas: [Replica; 3],
    _served: Vec<Served>,
    client: HttpEndpoints<BaseUri<Hyper>>,
}

impl Three {
    async fn start(policy: &Policy) -> Self {
        let replicas: [Replica; 3] = Default::default();
        let hyper: Hyper = HyperClient::builder(TokioExecutor::new()).build_http();
        let client = HttpEndpoints::new(policy, "it");
        let mut served = Vec::new();
        for (replica, name) in replicas.iter().zip(["a", "b", "c"]) {
            let server = serve(replica.router()).await;
            let base = server.url("/").parse().unwrap();
            client.insert(name, BaseUri::new(hyper.clone(), base)).unwrap();
            served.push(server);
        }
        Self {
            replicas,
            _served: served,
            client,
        }
    }

    /// Calls that must all be answered well.
    async fn calls(&self, count: usize) {
        for _ in 0..count {
            let request = http::Request::get("http://it/").body(Body::default()).unwrap();
            let response = self.client.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200);
        }
    }

    /// Makes calls until the state of an endpoint is as wanted.
    async fn call_until(&self, name: &str, wanted: impl Fn(&EndpointStatus) -> bool) {
        for _ in 0..20_000 {
            if wanted(&named(&self.client.status(), name)) {
                return;
            }
            self.calls(1).await;
        }
        panic!("{:?}", self.client.status());
    }
}

fn named(status: &[EndpointStatus], name: &str) -> EndpointStatus {
    status
        .iter()
        .find(|status| *status.name == *name)
        .cloned()
        .unwrap()
}

/// Nothing fails that another endpoint can serve, and the broken one is asked no more.
#[tokio::test]
async fn an_endpoint_that_answers_503_is_left_out_and_no_call_fails() {
    let keys = "maxRetries: 1, initialDelay: 1ms, endpoints: { outFor: 1h, outForAtMost: 1h }";
    let three = Three::start(&only(keys)).await;
    three.calls(60).await;
    assert!(three.replicas.iter().all(|replica| replica.asked() > 0));
    three.replicas[0].broken.store(true, Ordering::SeqCst);
    let before = three.replicas[0].asked();
    three.call_until("a", |status| !status.is_in()).await;
    let failures = three.replicas[0].asked() - before;
    assert!(failures <= 12, "{failures} failures until it was left out");
    let before = three.replicas[0].asked();
    three.calls(200).await;
    assert_eq!(three.replicas[0].asked(), before);
    let status = three.client.status();
    assert!(named(&status, "b").is_in() && named(&status, "c").is_in());
    assert!(named(&status, "a").out_for.unwrap() > Duration::from_secs(3000));
    assert!(status.iter().all(|status| status.under_way == 0));
}

#[tokio::test]
async fn after_its_time_single_attempts_try_it_and_it_comes_back_when_it_is_well() {
    let keys = "maxRetries: 1, initialDelay: 1ms, endpoints: { outFor: 20ms, outForAtMost: 100ms }";
    let three = Three::start(&only(keys)).await;
    three.calls(60).await;
    three.replicas[0].broken.store(true, Ordering::SeqCst);
    three.call_until("a", |status| !status.is_in()).await;
    let before = three.replicas[0].asked();
    // Trials fail, and what failed is served by the others.
    while three.replicas[0].asked() < before + 3 {
        three.calls(1).await;
    }
    assert!(!named(&three.client.status(), "a").is_in());
    three.replicas[0].broken.store(false, Ordering::SeqCst);
    three.call_until("a", EndpointStatus::is_in).await;
    let before = three.replicas[0].asked();
    three.calls(60).await;
    assert!(three.replicas[0].asked() > before, "it is used again");
}

/// A refused connection, reqwest, and a budget and a breaker beside the endpoints.
#[tokio::test]
async fn a_base_url_that_refuses_connections_is_left_out_until_it_listens() {
    let reserved = listen().await;
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let (one, two) = (Replica::default(), Replica::default());
    let served = [serve(one.router()).await, serve(two.router()).await];
    let bases = [format!("http://{address}"), served[0].url(""), served[1].url("/")];
    let keys = "maxRetries: 1, initialDelay: 1ms, budget: on, breaker: on, \
                endpoints: { outFor: 50ms, outForAtMost: 200ms }";
    let client = Client::with_endpoints(&only(keys), "it", &[&bases[1], &bases[2]]).unwrap();
    let call = || async {
        let response = client.get("http://it/").send().await.unwrap();
        assert_eq!(response.status(), 200);
    };
    // What the budget allows is a share of recent calls.
    for _ in 0..100 {
        call().await;
    }
    client.insert_endpoint(&bases[0]).unwrap();
    let refused = || named(&client.endpoints(), &bases[0]);
    while refused().is_in() {
        call().await;
    }
    for _ in 0..50 {
        call().await;
    }
    let back = Replica::default();
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let server = tokio::spawn(axum::serve(listener, back.router()).into_future());
    while !refused().is_in() || back.asked() < 10 {
        call().await;
    }
    assert!(client.remove_endpoint(&bases[1]));
    assert!(!client.remove_endpoint(&bases[1]));
    let before = one.asked();
    for _ in 0..30 {
        call().await;
    }
    assert_eq!(one.asked(), before, "a removed endpoint is not used");
    server.abort();
}

type Boxed = BoxCloneService<u32, u32, std::io::Error>;

fn well() -> Boxed {
    BoxCloneService::new(service_fn(|item: u32| async move { Ok(item) }))
}

fn silent() -> Boxed {
    BoxCloneService::new(service_fn(|_: u32| std::future::pending()))
}

fn refusing() -> Boxed {
    let refuse = |_: u32| async { Err(std::io::Error::other("broken")) };
    BoxCloneService::new(service_fn(refuse))
}

#[tokio::test(start_paused = true)]
async fn silence_counts_when_the_policy_ends_the_attempt() {
    let endpoints = Endpoints::new(
        &only("maxRetries: 1, attemptTimeout: 100ms"),
        "it",
        Plain::idempotent(),
    );
    endpoints.insert("silent", silent()).unwrap();
    endpoints.insert("well", well()).unwrap();
    for item in 0..100 {
        assert_eq!(endpoints.guarded().oneshot(item).await.unwrap(), item);
    }
    let status = endpoints.status();
    assert!(!status[0].is_in() && status[1].is_in());
    assert_eq!((status[0].under_way, status[1].under_way), (0, 0));
}

/// A caller that waits for 5 ms must not take an endpoint away from all callers.
#[tokio::test(start_paused = true)]
async fn a_callers_own_short_deadline_does_not_count() {
    let endpoints = Endpoints::new(&only("maxRetries: 0"), "it", Plain::idempotent());
    endpoints.insert("silent", silent()).unwrap();
    endpoints.insert("well", well()).unwrap();
    for item in 0..100 {
        let call = endpoints.guarded().oneshot(item);
        let _ = tokio::time::timeout(Duration::from_millis(5), call).await;
    }
    assert!(endpoints.status().iter().all(EndpointStatus::is_in));
}

#[tokio::test(start_paused = true)]
async fn without_an_endpoint_calls_wait_for_one() {
    let endpoints = Endpoints::new(&only("maxRetries: 0, deadline: 1s"), "it", Plain::idempotent());
    let waiting = tokio::spawn(endpoints.guarded().oneshot(7));
    let too_late = endpoints.guarded().oneshot(8).await;
    assert!(too_late.is_err());
    let waiting_longer = tokio::spawn(endpoints.guarded().oneshot(9));
    sleep(500).await;
    endpoints.insert("well", well()).unwrap();
    assert_eq!(waiting_longer.await.unwrap().unwrap(), 9);
    assert!(waiting.await.unwrap().is_err(), "its second was over");
}

#[tokio::test(start_paused = true)]
async fn the_last_endpoint_is_used_whatever_it_answers_and_a_new_one_replaces_it() {
    let endpoints = Endpoints::new(&only("maxRetries: 1"), "it", Plain::idempotent());
    endpoints.insert("a", refusing()).unwrap();
    for item in 0..50 {
        assert!(endpoints.guarded().oneshot(item).await.is_err());
    }
    assert!(endpoints.status()[0].is_in());
    endpoints.insert("a", well()).unwrap();
    assert_eq!(endpoints.status().len(), 1);
    assert_eq!(endpoints.guarded().oneshot(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_brings_all_back() {
    let all = only("maxRetries: 1");
    let endpoints = Endpoints::new(&all, "it", Plain::idempotent());
    endpoints.insert("a", refusing()).unwrap();
    endpoints.insert("b", well()).unwrap();
    for item in 0..100 {
        endpoints.guarded().oneshot(item).await.unwrap();
    }
    assert!(!endpoints.status()[0].is_in());
    endpoints.handle().replace(&only("maxRetries: 1, endpoints: off"));
    for item in 0..100 {
        endpoints.guarded().oneshot(item).await.unwrap();
    }
    assert!(endpoints.status()[0].is_in());
}

#[test]
fn at_the_limit_another_endpoint_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let endpoints = Endpoints::new(&only(""), "it", Plain::idempotent());
    let most = retryguard::machines::endpoints::Endpoints::MOST;
    for number in 0..most {
        endpoints.insert(number.to_string(), ()).unwrap();
    }
    let error = endpoints.insert("one more", ()).unwrap_err();
    assert_eq!(error, TooManyEndpoints);
    assert!(error.to_string().contains("4096"), "{error}");
    endpoints.insert("0", ()).unwrap();
}

/// They stood in a label of the metrics, in events and in `Debug`, and were never sent.
#[test]
fn a_base_with_a_password_is_refused() {
    let client = Client::with_endpoints(&Policy::default(), "it", &[]).unwrap();
    for base in [
        "http://user:s3cret@10.0.0.1/",
        "http://user@10.0.0.1/",
        "http://:s3cret@10.0.0.1/",
    ] {
        let error = client.insert_endpoint(base).unwrap_err();
        assert!(matches!(error, EndpointError::Credentials), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    assert!(client.endpoints().is_empty());
}
