//! A real pair over loopback: many clients, one server of limited capacity that fails on command.
//!
//! The server counts what reaches it. Plain clients that retry at once multiply a failure; the same clients
//! under the layer do not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use retryguard::{Policy, for_reqwest::Client, server::ServerLayer};
use tokio::sync::Semaphore;

use crate::support::{
    loopback::{Served, serve},
    policy,
    time::{sleep, until},
};

const CLIENTS: usize = 20;
const CALLS_OF_EACH: usize = 10;
const CALLS: usize = CLIENTS * CALLS_OF_EACH;
/// What a plain client does on a failure, at once.
const PLAIN_RETRIES: usize = 10;

/// A server that works on a few requests at once and rejects the others, or all of them on command.
struct Target {
    attempts: AtomicUsize,
    down: AtomicBool,
    places: Semaphore,
}

impl Target {
    const CAPACITY: usize = 3;

    fn new() -> Arc<Self> {
        Arc::new(Self {
            attempts: AtomicUsize::new(0),
            down: AtomicBool::new(false),
            places: Semaphore::new(Self::CAPACITY),
        })
    }

    fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/", get(Self::answer))
            .with_state(self.clone())
    }

    async fn answer(State(target): State<Arc<Self>>) -> StatusCode {
        target.attempts.fetch_add(1, Ordering::SeqCst);
        if target.down.load(Ordering::SeqCst) {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        let Ok(_place) = target.places.try_acquire() else {
            return StatusCode::SERVICE_UNAVAILABLE;
        };
        sleep(20).await;
        StatusCode::OK
    }

    fn attempts(&self) -> usize {
        self.attempts.swap(0, Ordering::SeqCst)
    }
}

/// Every client makes its calls one after another, all clients at once. Says how many calls succeeded.
async fn crowd<F: Future<Output = bool> + Send + 'static>(
    call: impl Fn() -> F + Clone + Send + 'static,
) -> usize {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut served = 0;
                for _ in 0..CALLS_OF_EACH {
                    served += usize::from(call().await);
                }
                served
            })
        })
        .collect();
    let mut served = 0;
    for client in clients {
        served += client.await.unwrap();
    }
    served
}

/// The layer is off: a loop that tries again at once.
async fn plain_crowd(server: &Served) -> usize {
    let client = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .build()
        .unwrap();
    let url = server.url("/");
    crowd(move || {
        let (client, url) = (client.clone(), url.clone());
        async move {
            for _ in 0..=PLAIN_RETRIES {
                if client
                    .get(&url)
                    .send()
                    .await
                    .is_ok_and(|response| response.status().is_success())
                {
                    return true;
                }
            }
            false
        }
    })
    .await
}

async fn guarded_crowd(client: &Client, server: &Served) -> usize {
    let (client, url) = (client.clone(), server.url("/"));
    crowd(move || {
        let (client, url) = (client.clone(), url.clone());
        async move {
            client
                .get(url)
                .await
                .is_ok_and(|response| response.status().is_success())
        }
    })
    .await
}

/// The defaults, with a breaker that comes back soon enough for a test.
fn defaults() -> Policy {
    policy("services: { target: { initialDelay: 2ms, breaker: { openFor: 100ms, openForAtMost: 200ms } } }")
}

#[tokio::test]
async fn an_outage_is_multiplied_without_the_layer_and_not_with_it() {
    let target = Target::new();
    let server = serve(target.router()).await;
    target.down.store(true, Ordering::SeqCst);

    assert_eq!(plain_crowd(&server).await, 0);
    assert_eq!(
        target.attempts(),
        CALLS * (PLAIN_RETRIES + 1),
        "the storm: eleven times the calls"
    );

    let client = Client::new(&defaults(), "target").unwrap();
    assert_eq!(guarded_crowd(&client, &server).await, 0);
    let attempts = target.attempts();
    assert!(
        attempts <= CALLS * 12 / 10 + 1,
        "{attempts} attempts for {CALLS} calls"
    );

    target.down.store(false, Ordering::SeqCst);
    let url = server.url("/");
    let back = tokio::spawn(async move {
        for _ in 0..500 {
            if client
                .get(&url)
                .await
                .is_ok_and(|response| response.status().is_success())
            {
                return true;
            }
            sleep(10).await;
        }
        false
    });
    assert!(
        back.await.unwrap(),
        "the calls flow again when the target is back"
    );
}

#[tokio::test]
async fn an_overload_is_fed_by_plain_retries_and_not_by_the_layer() {
    let target = Target::new();
    let server = serve(target.router()).await;
    let served = plain_crowd(&server).await;
    let attempts = target.attempts();
    assert!(
        attempts > 3 * CALLS,
        "plain clients sent {attempts} attempts for {CALLS} calls"
    );
    assert!(served > 0, "it serves as much as it can");

    let client = Client::new(&defaults(), "target").unwrap();
    let served = guarded_crowd(&client, &server).await;
    let attempts = target.attempts();
    assert!(
        attempts <= CALLS * 12 / 10 + 1,
        "{attempts} attempts for {CALLS} calls"
    );
    assert!(served > 0, "it serves as much as it can");
    let status = client.handle().status();
    assert_eq!((status.in_flight, status.waiting), (0, 0));
}

/// With the layer on both sides the server says that it is overloaded, and no client retries at all.
#[tokio::test]
async fn a_server_that_sheds_is_not_retried() {
    let target = Target::new();
    let both = policy(
        "services: { target: { breaker: off, gate: { scope: retries }, \
         server: { inFlight: 2, retryAfter: 1ms } } }",
    );
    let server = serve(target.router().layer(ServerLayer::new(&both, "target"))).await;
    let client = Client::new(&both, "target").unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = answered.clone();
    let url = server.url("/");
    crowd(move || {
        let (client, url, counted) = (client.clone(), url.clone(), counted.clone());
        async move {
            let response = client.get(url).await.unwrap();
            let report = retryguard::Report::of(response.extensions());
            counted.fetch_add(usize::from(report.attempts), Ordering::SeqCst);
            response.status().is_success()
        }
    })
    .await;
    assert_eq!(
        answered.load(Ordering::SeqCst),
        CALLS,
        "one attempt for each call"
    );
    assert!(target.attempts() < CALLS, "the handler saw only what was let in");
}

/// The storm that outlives its cause: requests whose clients have gone away keep a server busy that works on
/// them one after another.
#[tokio::test]
async fn deadlines_keep_a_server_from_working_for_callers_that_are_gone() {
    let worked = Arc::new(AtomicUsize::new(0));
    let counted = worked.clone();
    let router = Router::new().route(
        "/",
        get(move || {
            let counted = counted.clone();
            async move {
                sleep(30).await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }),
    );
    let guarded = policy(
        "services: { target: { maxRetries: 0, breaker: off, guard: off, deadline: 100ms, \
         server: { working: 1, inFlight: 100, queueTime: 1h } } }",
    );
    let server = serve(router.layer(ServerLayer::new(&guarded, "target"))).await;
    let client = Client::new(&guarded, "target").unwrap();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (client, url) = (client.clone(), server.url("/"));
            tokio::spawn(async move {
                client
                    .get(url)
                    .await
                    .is_ok_and(|response| response.status() == 200)
            })
        })
        .collect();
    let mut served = 0;
    for call in calls {
        served += usize::from(call.await.unwrap());
    }
    tokio::time::timeout(Duration::from_secs(10), async {
        let (client, url) = (client.clone(), server.url("/"));
        while !client
            .get(&url)
            .await
            .is_ok_and(|response| response.status() == 200)
        {}
    })
    .await
    .expect("it is free again at once, and does not finish the fifty first");
    let worked = worked.load(Ordering::SeqCst);
    assert!(
        worked <= served + 10,
        "{worked} requests were worked on for {served} that were served"
    );
    until("nothing is held", || client.handle().status().in_flight == 0).await;
}
