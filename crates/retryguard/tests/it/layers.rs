//! Three services in a row, each calling the next: retries do not multiply, deadlines shrink, criticality is
//! handed down.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, http::HeaderMap, http::StatusCode, routing::get};
use retryguard::{
    Context, Criticality, Policy, Report,
    for_http::tags::{CRITICALITY, DEADLINE, RETRIED, Tags},
    for_reqwest::{Client, Tagged},
    server::ServerLayer,
};

use crate::support::{
    loopback::{Served, serve},
    policy,
    time::sleep,
};

/// What each service of the chain has seen, the edge first.
type Log = Arc<Mutex<Vec<(&'static str, HeaderMap)>>>;

struct Chain {
    edge: Client,
    first: Served,
    log: Log,
    _below: [Served; 2],
}

impl Chain {
    /// `spawned` says how service B hands its work to another task.
    async fn new(policy: &Policy, spawned: Spawned) -> Self {
        let log = Log::default();
        let c = serve(last(&log).layer(ServerLayer::new(policy, "c"))).await;
        let b = serve(middle("b", policy, "c", &c, spawned, &log)).await;
        let a = serve(middle("a", policy, "b", &b, Spawned::No, &log)).await;
        Self {
            edge: Client::new(policy, "a").unwrap(),
            first: a,
            log,
            _below: [b, c],
        }
    }

    async fn call(&self, tags: Tags) -> reqwest::Response {
        let request = self
            .edge
            .request(reqwest::Method::GET, self.first.url("/"))
            .build()
            .unwrap()
            .request;
        self.edge.execute(Tagged { request, tags }).await.unwrap()
    }

    fn seen(&self, service: &str) -> Vec<HeaderMap> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter(|(of, _)| *of == service)
            .map(|(_, headers)| headers.clone())
            .collect()
    }

    fn counts(&self) -> [usize; 3] {
        ["a", "b", "c"].map(|service| self.seen(service).len())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Spawned {
    No,
    WithoutContext,
    WithContext,
}

fn last(log: &Log) -> Router {
    let log = log.clone();
    Router::new().route(
        "/",
        get(move |headers: HeaderMap| async move {
            log.lock().unwrap().push(("c", headers));
            StatusCode::INTERNAL_SERVER_ERROR
        }),
    )
}

fn middle(
    name: &'static str,
    policy: &Policy,
    next: &str,
    below: &Served,
    spawned: Spawned,
    log: &Log,
) -> Router {
    let (client, url, log) = (Client::new(policy, next).unwrap(), below.url("/"), log.clone());
    let handler = move |headers: HeaderMap| async move {
        log.lock().unwrap().push((name, headers));
        sleep(20).await;
        let work = async move {
            client
                .get(url)
                .await
                .is_ok_and(|response| response.status().is_success())
        };
        let fine = match (spawned, Context::current()) {
            (Spawned::No, _) | (_, None) => work.await,
            (Spawned::WithoutContext, _) => tokio::spawn(work).await.unwrap(),
            (Spawned::WithContext, Some(context)) => tokio::spawn(context.scope(work)).await.unwrap(),
        };
        if fine {
            StatusCode::OK
        } else {
            StatusCode::BAD_GATEWAY
        }
    };
    Router::new()
        .route("/", get(handler))
        .layer(ServerLayer::new(policy, name))
}

fn retrying(more: &str) -> Policy {
    policy(&format!(
        "defaults: {{ maxRetries: 2, initialDelay: 1ms, growth: constant, budget: off, guard: off, breaker: off, {more} }}"
    ))
}

#[tokio::test]
async fn only_the_layer_above_the_failure_retries_it() {
    let chain = Chain::new(&retrying(""), Spawned::No).await;
    let response = chain.call(Tags::default()).await;
    assert_eq!(
        chain.counts(),
        [1, 1, 3],
        "three attempts at the bottom and not 27"
    );
    assert_eq!(response.headers()[RETRIED], "1", "retried at B, passed on by A");
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, report.retried_below), (1, 1));
}

#[tokio::test]
async fn a_policy_that_retries_what_was_retried_multiplies() {
    let chain = Chain::new(&retrying("retryRetried: true"), Spawned::No).await;
    chain.call(Tags::default()).await;
    assert_eq!(chain.counts(), [3, 9, 27]);
}

#[tokio::test]
async fn a_spawned_task_that_takes_its_context_along_passes_the_mark_up() {
    let chain = Chain::new(&retrying(""), Spawned::WithContext).await;
    chain.call(Tags::default()).await;
    assert_eq!(chain.counts(), [1, 1, 3]);
    let blind = Chain::new(&retrying(""), Spawned::WithoutContext).await;
    blind.call(Tags::default()).await;
    assert_eq!(
        blind.counts(),
        [1, 3, 9],
        "B does not know what its task met, and A retries it"
    );
}

#[tokio::test]
async fn the_deadline_shrinks_from_hop_to_hop() {
    let chain = Chain::new(&retrying(""), Spawned::No).await;
    let tags = Tags::new().deadline(std::time::Duration::from_secs(20));
    chain.call(tags).await;
    let left = |service: &str| -> Vec<u64> {
        let seen = chain.seen(service);
        seen.iter()
            .map(|headers| headers[DEADLINE].to_str().unwrap().parse().unwrap())
            .collect()
    };
    let (a, b, c) = (left("a"), left("b"), left("c"));
    assert!(
        a[0] <= 10_000,
        "the policy's deadline is shorter than the caller's: {a:?}"
    );
    assert!(b[0] + 20 <= a[0], "A took its time first: {a:?} {b:?}");
    assert!(c[0] + 20 <= b[0], "and so did B: {b:?} {c:?}");
    assert!(c[2] < c[0], "a retry has less left than the first attempt: {c:?}");
}

#[tokio::test]
async fn a_deadline_at_the_edge_ends_the_work_below() {
    let patient = policy(
        "defaults: { maxRetries: 2, initialDelay: 9s, jitter: none, budget: off, guard: off, breaker: off }",
    );
    let chain = Chain::new(&patient, Spawned::No).await;
    let tags = Tags::new().deadline(std::time::Duration::from_secs(5));
    let response = chain.call(tags).await;
    assert_eq!(
        chain.counts(),
        [1, 1, 1],
        "a retry after nine seconds fits into B's own deadline and not into the edge's"
    );
    assert_eq!(response.status(), 502);
}

#[tokio::test]
async fn criticality_is_inherited_by_every_hop() {
    for (spawned, at_the_bottom) in [
        (Spawned::No, Some("sheddable-plus")),
        (Spawned::WithContext, Some("sheddable-plus")),
        // The usual criticality, which is not sent.
        (Spawned::WithoutContext, None),
    ] {
        let chain = Chain::new(&retrying(""), spawned).await;
        let tags = Tags::new().criticality(Criticality::SheddablePlus);
        chain.call(tags).await;
        assert_eq!(chain.seen("a")[0][CRITICALITY], "sheddable-plus");
        assert_eq!(chain.seen("b")[0][CRITICALITY], "sheddable-plus");
        let lowest = chain.seen("c")[0].get(CRITICALITY).cloned();
        assert_eq!(
            lowest.as_ref().map(|level| level.to_str().unwrap()),
            at_the_bottom
        );
    }
}

/// A refusal by the breaker protects the target; a caller above that retries would undo it.
#[tokio::test]
async fn what_a_breaker_refuses_is_not_retried_above() {
    let policy = policy(
        "defaults: { maxRetries: 2, initialDelay: 1ms, budget: off, guard: off, breaker: off }\n\
         services: { c: { maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 1h } } }",
    );
    let chain = Chain::new(&policy, Spawned::No).await;
    chain.call(Tags::default()).await;
    let [_, before, at_the_bottom] = chain.counts();
    assert_eq!(at_the_bottom, 1, "the breaker before C is open now");
    let response = chain.call(Tags::default()).await;
    assert!(response.headers().contains_key(RETRIED));
    assert_eq!(chain.counts(), [chain.counts()[0], before + 1, 1]);
}

/// A context of one request is not seen by another that the same connection carries.
#[tokio::test]
async fn marks_do_not_leak_into_the_next_request() {
    let failing = Arc::new(AtomicUsize::new(1));
    let turn = failing.clone();
    let below = serve(Router::new().route(
        "/",
        get(move || {
            let turn = turn.clone();
            async move {
                if turn.load(Ordering::SeqCst) == 0 {
                    StatusCode::OK
                } else {
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            }
        }),
    ))
    .await;
    let log = Log::default();
    let policy = retrying("");
    let above = serve(middle("a", &policy, "b", &below, Spawned::No, &log)).await;
    let client = reqwest::Client::new();
    let first = client.get(above.url("/")).send().await.unwrap();
    assert_eq!(first.headers()[RETRIED], "1");
    failing.store(0, Ordering::SeqCst);
    let second = client.get(above.url("/")).send().await.unwrap();
    assert!(!second.headers().contains_key(RETRIED));
}
