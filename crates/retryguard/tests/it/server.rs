//! The server layer over real HTTP: what it sheds, what it says, what it gives back.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use reqwest::Response;
use retryguard::{
    Policy,
    for_http::tags::{
        ATTEMPT, CRITICALITY, DEADLINE, DO_NOT_RETRY, GRPC_PUSHBACK, GRPC_STATUS, GRPC_TIMEOUT,
        RETRY_AFTER_MS,
    },
    server::ServerLayer,
};
use tokio::{sync::Semaphore, task::JoinHandle};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{
    loopback::{Served, serve},
    policy, scripted,
    time::{sleep, until},
};

/// A server whose handlers stay until they are let go.
struct House {
    layer: ServerLayer,
    server: Served,
    client: reqwest::Client,
    doors: Arc<Doors>,
}

struct Doors {
    inside: AtomicUsize,
    most: AtomicUsize,
    worked: AtomicUsize,
    leave: Semaphore,
}

impl House {
    async fn new(server: &str) -> Self {
        let layer = ServerLayer::new(&serving(server), "it");
        let doors = Arc::new(Doors {
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            worked: AtomicUsize::new(0),
            leave: Semaphore::new(0),
        });
        let (stay, pass) = (doors.clone(), doors.clone());
        let router = Router::new()
            .route("/stay", get(async move || stay.stay().await))
            .route(
                "/pass",
                get(async move || {
                    pass.worked.fetch_add(1, Ordering::SeqCst);
                }),
            )
            .route("/panic", get(async || -> () { panic!("a handler that breaks") }))
            .layer(layer.clone());
        Self {
            layer,
            server: serve(router).await,
            // A handler that is not ended fails its test instead of holding it up for ever.
            client: reqwest::Client::builder()
                .timeout(Duration::from_secs(30))
                .build()
                .unwrap(),
            doors,
        }
    }

    async fn ask(&self, path: &str, headers: &[(http::HeaderName, &str)]) -> Response {
        let mut request = self.client.get(self.server.url(path));
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.send().await.unwrap()
    }

    async fn status(&self, headers: &[(http::HeaderName, &str)]) -> StatusCode {
        self.ask("/pass", headers).await.status()
    }

    /// Puts guests of the highest rank inside.
    async fn fill(&self, guests: usize) -> Vec<JoinHandle<()>> {
        let before = self.doors.inside.load(Ordering::SeqCst);
        let tasks = (0..guests)
            .map(|_| {
                let request = self
                    .client
                    .get(self.server.url("/stay"))
                    .header(CRITICALITY, "critical-plus");
                tokio::spawn(async move {
                    request.send().await.unwrap();
                })
            })
            .collect();
        until("the guests are inside", || self.inside() == before + guests).await;
        tasks
    }

    fn inside(&self) -> usize {
        self.doors.inside.load(Ordering::SeqCst)
    }

    fn let_go(&self, guests: usize) {
        self.doors.leave.add_permits(guests);
    }
}

fn serving(server: &str) -> Policy {
    policy(&format!(
        "services: {{ it: {{ server: {{ trust: internal, {server} }} }} }}"
    ))
}

impl Doors {
    async fn stay(&self) {
        struct Leaving<'a>(&'a AtomicUsize);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        let _leaving = Leaving(&self.inside);
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.worked.fetch_add(1, Ordering::SeqCst);
        self.leave.acquire().await.unwrap().forget();
    }
}

#[tokio::test]
async fn background_work_is_shed_before_what_matters_and_retries_before_first_attempts() {
    let house = House::new("inFlight: 10").await;
    // How many guests may be inside when a request of this rank still gets in.
    let ranks = [
        ("sheddable", "2", 5),
        ("sheddable", "1", 6),
        ("sheddable-plus", "3", 7),
        ("sheddable-plus", "1", 8),
        ("critical", "2", 9),
        ("critical", "1", 10),
        ("critical-plus", "1", 11),
    ];
    let mut guests = Vec::new();
    for inside in 0..=11 {
        assert_eq!(house.inside(), inside);
        for (criticality, attempt, room) in ranks {
            let headers = [(CRITICALITY, criticality), (ATTEMPT, attempt)];
            let expected = if inside < room {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            assert_eq!(
                house.status(&headers).await,
                expected,
                "{criticality} {attempt}, {inside} inside"
            );
        }
        if inside < 11 {
            guests.extend(house.fill(1).await);
        }
    }
    house.let_go(11);
    for guest in guests {
        guest.await.unwrap();
    }
    until("all have left", || house.inside() == 0).await;
    assert_eq!(
        house.status(&[(CRITICALITY, "sheddable"), (ATTEMPT, "9")]).await,
        StatusCode::OK
    );
}

#[tokio::test]
async fn refused_clients_are_told_not_to_retry_and_to_come_back_at_different_times() {
    let house = House::new("inFlight: 1, retryAfter: 1s, spread: 100%").await;
    let _guest = house.fill(1).await;
    let (mut millis, mut seconds) = (HashSet::new(), HashSet::new());
    for _ in 0..40 {
        let response = house.ask("/pass", &[]).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[DO_NOT_RETRY], "overloaded");
        let number = |name: &str| -> u64 { response.headers()[name].to_str().unwrap().parse().unwrap() };
        assert!((1_000..=2_000).contains(&number(RETRY_AFTER_MS.as_str())));
        millis.insert(number(RETRY_AFTER_MS.as_str()));
        seconds.insert(number("retry-after"));
        assert_eq!(
            response.text().await.unwrap(),
            "overloaded: too many requests in flight\n"
        );
    }
    assert!(millis.len() > 20, "{millis:?}");
    assert_eq!(seconds, HashSet::from([1, 2]), "whole seconds are spread too");
    assert_eq!(
        house.doors.worked.load(Ordering::SeqCst),
        1,
        "only the guest was worked on"
    );
}

#[tokio::test]
async fn a_request_whose_deadline_has_passed_is_not_worked_on() {
    let house = House::new("inFlight: 10").await;
    let response = house.ask("/pass", &[(DEADLINE, "0")]).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert!(
        !response.headers().contains_key(DO_NOT_RETRY),
        "it is no evidence of load"
    );
    assert_eq!(house.doors.worked.load(Ordering::SeqCst), 0);
    assert_eq!(house.status(&[(DEADLINE, "60000")]).await, StatusCode::OK);
}

#[tokio::test]
async fn work_is_dropped_at_the_deadline() {
    let house = House::new("inFlight: 1").await;
    let response = house.ask("/stay", &[(DEADLINE, "50")]).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(
        (house.inside(), house.doors.worked.load(Ordering::SeqCst)),
        (0, 1)
    );
    assert_eq!(house.status(&[]).await, StatusCode::OK, "its place is free");
}

#[tokio::test]
async fn the_servers_own_deadline_bounds_requests_that_carry_none_or_a_later_one() {
    let house = House::new("inFlight: 9, deadline: 50ms").await;
    for headers in [&[][..], &[(DEADLINE, "3600000")]] {
        assert_eq!(
            house.ask("/stay", headers).await.status(),
            StatusCode::GATEWAY_TIMEOUT
        );
    }
    assert_eq!(house.inside(), 0);
}

#[tokio::test]
async fn requests_wait_for_their_turn_where_the_work_at_once_is_bounded() {
    let house = House::new("inFlight: 20, working: 2, queueTime: 1h").await;
    let guests: Vec<_> = (0..10)
        .map(|_| tokio::spawn(house.client.get(house.server.url("/stay")).send()))
        .collect();
    until("two are at work", || house.inside() == 2).await;
    house.let_go(10);
    for guest in guests {
        assert_eq!(guest.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(house.doors.most.load(Ordering::SeqCst), 2);
    assert_eq!(house.doors.worked.load(Ordering::SeqCst), 10);
}

#[tokio::test]
async fn a_request_that_waits_for_its_turn_gives_up_at_its_deadline() {
    let house = House::new("inFlight: 20, working: 1, queueTime: 1h").await;
    let _guest = house.fill(1).await;
    let response = house.ask("/pass", &[(DEADLINE, "50")]).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(house.doors.worked.load(Ordering::SeqCst), 1, "it was never begun");
    house.let_go(1);
    assert_eq!(house.status(&[]).await, StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_place() {
    let house = House::new("inFlight: 2").await;
    for _ in 0..3 {
        let guests = house.fill(2).await;
        assert_eq!(house.status(&[]).await, StatusCode::SERVICE_UNAVAILABLE);
        for guest in guests {
            guest.abort();
        }
        until("the server has noticed", || house.inside() == 0).await;
        assert_eq!(house.status(&[]).await, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_leaves_no_hole_in_the_queue() {
    let house = House::new("inFlight: 20, working: 1, queueTime: 1h").await;
    let guest = house.fill(1).await;
    let waiting = tokio::spawn(house.client.get(house.server.url("/stay")).send());
    let last = tokio::spawn(house.client.get(house.server.url("/pass")).send());
    // A place in the queue is not to be seen from outside; the one that is given up below is, if it is lost.
    sleep(50).await;
    waiting.abort();
    house.let_go(1);
    assert_eq!(last.await.unwrap().unwrap().status(), StatusCode::OK);
    for guest in guest {
        guest.await.unwrap();
    }
    assert_eq!(house.status(&[]).await, StatusCode::OK);
}

#[tokio::test]
async fn a_handler_that_panics_frees_its_place() {
    let house = House::new("inFlight: 1").await;
    for _ in 0..3 {
        let broken = house.client.get(house.server.url("/panic")).send().await;
        assert!(broken.is_err(), "the connection breaks");
    }
    assert_eq!(house.status(&[]).await, StatusCode::OK);
}

#[tokio::test]
async fn hostile_tags_are_as_if_they_were_not_there() {
    let house = House::new("inFlight: 10").await;
    let long = "9".repeat(4_000);
    let hostile = [
        (ATTEMPT, "-1"),
        (ATTEMPT, "0"),
        (ATTEMPT, long.as_str()),
        (CRITICALITY, "godlike"),
        (CRITICALITY, "\u{fc}ber"),
        (DEADLINE, "18446744073709551616"),
        (DEADLINE, "-1"),
        (DEADLINE, "1e3"),
        (DEADLINE, ""),
        (GRPC_TIMEOUT, "99999999999H"),
        (GRPC_TIMEOUT, "\u{20ac}"),
        (GRPC_TIMEOUT, "H"),
    ];
    for tag in hostile {
        let shown = format!("{tag:?}");
        assert_eq!(house.status(&[tag]).await, StatusCode::OK, "{shown}");
    }
    assert_eq!(
        house.status(&[(DEADLINE, "18446744073709551615")]).await,
        StatusCode::OK,
        "a deadline at the end of time"
    );
    // An unknown criticality is an ordinary one and not the highest.
    let _guests = house.fill(10).await;
    assert_eq!(
        house.status(&[(CRITICALITY, "godlike")]).await,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn grpc_clients_are_refused_in_their_own_words() {
    let house = House::new("inFlight: 1").await;
    let grpc = (http::header::CONTENT_TYPE, "application/grpc");
    let _guest = house.fill(1).await;
    let refused = house.ask("/pass", std::slice::from_ref(&grpc)).await;
    assert_eq!(refused.status(), StatusCode::OK);
    assert_eq!(refused.headers()[GRPC_STATUS], "8", "RESOURCE_EXHAUSTED");
    assert_eq!(refused.headers()[GRPC_PUSHBACK], "-1", "do not retry");
    assert_eq!(refused.headers()["content-type"], "application/grpc");
    let late = house.ask("/pass", &[grpc, (GRPC_TIMEOUT, "0n")]).await;
    assert_eq!(late.status(), StatusCode::OK);
    assert_eq!(late.headers()[GRPC_STATUS], "4", "DEADLINE_EXCEEDED");
}

/// Frameworks apply a layer to every route, and some to every request.
#[tokio::test]
async fn all_routes_share_one_bound() {
    let house = House::new("inFlight: 3").await;
    let _guests = house.fill(3).await;
    assert_eq!(
        house.ask("/pass", &[]).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(
        house.ask("/panic", &[]).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn a_new_policy_holds_at_once_and_requests_inside_stay() {
    let house = House::new("inFlight: 4").await;
    let guests = house.fill(3).await;
    house.layer.replace(&serving("inFlight: 2"));
    assert_eq!(house.status(&[]).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(house.inside(), 3, "no request was thrown out");
    house.layer.replace(&policy("services: { it: { server: off } }"));
    assert_eq!(
        house.status(&[(CRITICALITY, "sheddable")]).await,
        StatusCode::OK,
        "no bound at all"
    );
    house.layer.replace(&serving("inFlight: 4"));
    assert_eq!(house.status(&[]).await, StatusCode::OK);
    house.let_go(3);
    for guest in guests {
        guest.await.unwrap();
    }
    house.layer.replace(&serving("inFlight: 1"));
    assert_eq!(house.status(&[]).await, StatusCode::OK, "all were counted out");
}

#[tokio::test]
async fn a_policy_that_begins_to_bound_counts_from_then_on() {
    let unbound = policy("services: { it: { server: off } }");
    let house = House::new("inFlight: 9").await;
    house.layer.replace(&unbound);
    let guests = house.fill(2).await;
    house.layer.replace(&serving("inFlight: 3"));
    assert_eq!(house.status(&[]).await, StatusCode::OK);
    house.let_go(2);
    for guest in guests {
        guest.await.unwrap();
    }
    let _full = house.fill(3).await;
    assert_eq!(house.status(&[]).await, StatusCode::SERVICE_UNAVAILABLE);
}

/// Where the work on a request takes longer than `queueTime`, every second request waits longer than that, and no queue
/// stands for all that.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_short_beside_the_work_is_no_standing_queue() {
    let handler = service_fn(|_: http::Request<Full<Bytes>>| async {
        sleep(100).await;
        Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::default()))
    });
    let layer = ServerLayer::new(
        &serving("inFlight: 1000, working: 1, queueTime: 20ms, queueInterval: 100ms"),
        "it",
    );
    let client = || {
        let served = layer.layer(handler);
        tokio::spawn(async move {
            for _ in 0..50 {
                let mut request = scripted::get();
                request
                    .headers_mut()
                    .insert(CRITICALITY, "sheddable".parse().unwrap());
                let response = served.clone().oneshot(request).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
            }
        })
    };
    let (first, second) = (client(), client());
    first.await.unwrap();
    second.await.unwrap();
}

/// A standing queue, and not a burst: the signal is the shortest wait of an interval.
#[tokio::test(start_paused = true)]
async fn a_standing_queue_sheds_background_work_and_keeps_what_matters() {
    let handler = service_fn(|_: http::Request<Full<Bytes>>| async {
        sleep(10).await;
        Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::default()))
    });
    let layer = ServerLayer::new(
        &serving("inFlight: 1000, working: 1, queueTime: 20ms, queueInterval: 100ms"),
        "it",
    );
    let arrive = |criticality: &str| {
        let mut request = scripted::get();
        request
            .headers_mut()
            .insert(CRITICALITY, criticality.parse().unwrap());
        tokio::spawn(layer.layer(handler).oneshot(request))
    };
    let burst: Vec<_> = (0..5).map(|_| arrive("sheddable")).collect();
    for request in burst {
        assert_eq!(
            request.await.unwrap().unwrap().status(),
            StatusCode::OK,
            "a burst is worked off"
        );
    }
    // Twice as much as it can do, for a second and a half.
    let mut requests = Vec::new();
    for round in 0..300 {
        requests.push((round, "sheddable", arrive("sheddable")));
        if round % 4 == 0 {
            requests.push((round, "critical-plus", arrive("critical-plus")));
        }
        sleep(5).await;
    }
    let (mut shed, mut reasons) = (0, HashSet::new());
    for (round, criticality, request) in requests {
        let response = request.await.unwrap().unwrap();
        if response.status() == StatusCode::OK {
            continue;
        }
        assert_eq!(
            criticality, "sheddable",
            "what matters most is never shed by the queue"
        );
        assert!(round > 10, "and nothing before the queue stands");
        shed += 1;
        reasons.insert(response.into_body().collect().await.unwrap().to_bytes());
    }
    assert!(shed > 50, "{shed}");
    assert_eq!(
        reasons,
        HashSet::from([Bytes::from_static(
            b"overloaded: requests wait too long for their turn\n"
        )])
    );
}

/// Eight requests at a time are worked on, ten milliseconds each; what comes beyond waits, as at a database with eight
/// connections.
async fn crowded(in_flight: &str) -> (usize, usize) {
    let workers = Arc::new(Semaphore::new(8));
    let layer = ServerLayer::new(&serving(&format!("inFlight: {in_flight}")), "it");
    let work = async move || {
        let _place = workers.acquire().await;
        sleep(10).await;
    };
    let server = serve(Router::new().route("/work", get(work)).layer(layer)).await;
    let client = reqwest::Client::new();
    // One after the other, so that the server knows how long a request takes.
    for _ in 0..60 {
        let response = client.get(server.url("/work")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    let (served, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<JoinHandle<()>> = (0..60)
        .map(|_| {
            let (client, url) = (client.clone(), server.url("/work"));
            let (served, refused) = (served.clone(), refused.clone());
            tokio::spawn(async move {
                for _ in 0..15 {
                    let response = client.get(&url).send().await.unwrap();
                    if response.status().is_success() {
                        served.fetch_add(1, Ordering::SeqCst);
                    } else {
                        assert!(response.headers().contains_key(RETRY_AFTER_MS));
                        refused.fetch_add(1, Ordering::SeqCst);
                        sleep(50).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    (served.load(Ordering::SeqCst), refused.load(Ordering::SeqCst))
}

/// Under a fixed bound of 200 a crowd of 60 clients waits in the server's own queue. An adaptive bound finds out that requests
/// take longer and refuses what would only wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adaptive_bound_refuses_what_would_only_wait() {
    let (served, refused) = crowded("200").await;
    assert_eq!((served, refused), (60 * 15, 0));
    let (served, refused) = crowded("adaptive").await;
    assert!(refused > 0 && served > 0, "{served} served, {refused} refused");
}
