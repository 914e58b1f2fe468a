//! A real HAProxy under its actuator.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use http::StatusCode;
use retryguard_controller::adapters::actuator::haproxy::Haproxy as Actuating;
use retryguard_controller::config::actuator::haproxy::{HaproxySettings, HaproxyTarget};
use retryguard_controller::domain::state::{Change, Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::{Actuator as _, ActuatorError};
use retryguard_controller::reconcile::control_loop::Ended;
use retryguard_core::ratio::Ratio;
use retryguard_parts::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::envoy::controller::Controller;
use crate::envoy::world::{client, pause, until};

/// Answers 503 while it is sick, and counts attempts.
struct Service {
    port: u16,
    sick: Arc<AtomicBool>,
    attempts: Arc<AtomicU64>,
}

impl Service {
    async fn start(sick: bool) -> Self {
        let sick = Arc::new(AtomicBool::new(sick));
        let attempts = Arc::new(AtomicU64::new(0));
        type Both = (Arc<AtomicBool>, Arc<AtomicU64>);
        let answer = |State((sick, attempts)): State<Both>| async move {
            attempts.fetch_add(1, Ordering::Relaxed);
            if sick.load(Ordering::Relaxed) {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::OK
            }
        };
        let both = (Arc::clone(&sick), Arc::clone(&attempts));
        let app = Router::new().fallback(answer).with_state(both);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, sick, attempts }
    }

    /// The attempts that so many calls come to.
    async fn attempts_of(&self, proxy: &Haproxy, calls: u64) -> u64 {
        let before = self.attempts.load(Ordering::Relaxed);
        for _ in 0..calls {
            let _ = client().get(proxy.url()).send().await.unwrap();
        }
        self.attempts.load(Ordering::Relaxed) - before
    }
}

/// The configuration that we ship, with the places of a test.
fn haproxy(service: &Service) -> Haproxy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/haproxy/haproxy.cfg");
    let text = std::fs::read_to_string(path).expect("the configuration is in deploy/haproxy");
    Haproxy::start(|places| {
        text.replace(
            "/tmp/retryguard-guide/haproxy.sock",
            &places.socket.to_string_lossy(),
        )
        .replace(
            "/tmp/retryguard-guide/retryguard.map",
            &places.map.to_string_lossy(),
        )
        .replace("127.0.0.1:10000", &format!("127.0.0.1:{}", places.listener))
        .replace("127.0.0.1:8405", &format!("127.0.0.1:{}", places.metrics))
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", service.port))
    })
}

fn actuator(proxy: &Haproxy, backends: &[&str]) -> Actuating {
    let settings = HaproxySettings {
        sockets: vec![proxy.places().socket.to_string_lossy().into_owned()],
        map: proxy.places().map.to_string_lossy().into_owned(),
    };
    let target = HaproxyTarget {
        backends: backends.iter().map(|name| (*name).to_owned()).collect(),
    };
    Actuating::start(&settings, vec![(TargetName::new("shop"), target)]).unwrap()
}

fn change(desired: RetryState) -> Change {
    Change {
        target: TargetName::new("shop"),
        desired,
        why: "a test wants it".to_owned(),
        term: 1,
    }
}

fn quarter() -> RetryState {
    RetryState::Part {
        step: 1,
        share: Ratio::percent(25),
    }
}

async fn held(actuator: &Actuating) -> Option<Observed> {
    let found = actuator.find().await.unwrap();
    found.into_iter().next().map(|found| found.held)
}

/// An operator's command.
async fn command(proxy: &Haproxy, verb: &str, rest: &str) -> String {
    let mut socket = tokio::net::UnixStream::connect(&proxy.places().socket)
        .await
        .unwrap();
    let map = proxy.places().map.display();
    let line = format!("{verb} map {map} {rest}\n");
    socket.write_all(line.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
#[ignore = "needs HAProxy"]
async fn retries_are_switched_for_new_requests_and_found_again() {
    let service = Service::start(true).await;
    let mut proxy = haproxy(&service);
    let actuator = actuator(&proxy, &["reviews"]);
    assert_eq!(held(&actuator).await, None);
    assert_eq!(service.attempts_of(&proxy, 5).await, 30, "five retries for each");
    let losses = actuator.apply(&change(RetryState::Off)).await.unwrap();
    assert!(losses[0].0.contains("connection that fails"), "{losses:?}");
    assert_eq!(service.attempts_of(&proxy, 5).await, 5);
    actuator.apply(&change(quarter())).await.unwrap();
    let some = service.attempts_of(&proxy, 60).await;
    // Sixty requests with five retries for a quarter of them: 135 on average, with a standard deviation of 17.
    assert!(some > 70 && some < 220, "{some}");
    // The next controller finds what this one left.
    let next = self::actuator(&proxy, &["reviews"]);
    assert_eq!(held(&next).await, Some(Observed::Managed(quarter())));
    next.apply(&change(RetryState::Original)).await.unwrap();
    assert_eq!(
        command(&proxy, "show", "").await.trim(),
        "",
        "nothing of ours is left"
    );
    assert_eq!(service.attempts_of(&proxy, 5).await, 30);
    // A HAProxy that restarts has forgotten it.
    next.apply(&change(RetryState::Off)).await.unwrap();
    proxy.restart();
    assert_eq!(held(&next).await, None);
    next.apply(&change(RetryState::Off)).await.unwrap();
    assert_eq!(service.attempts_of(&proxy, 5).await, 5);
}

#[tokio::test]
#[ignore = "needs HAProxy"]
async fn what_an_operator_writes_stands() {
    let service = Service::start(true).await;
    let proxy = haproxy(&service);
    let actuator = actuator(&proxy, &["reviews"]);
    command(&proxy, "add", "reviews 100").await;
    let refused = actuator.apply(&change(RetryState::Off)).await.unwrap_err();
    assert!(matches!(refused, ActuatorError::Conflict { .. }), "{refused}");
    command(&proxy, "del", "reviews").await;
    actuator.apply(&change(RetryState::Off)).await.unwrap();
    command(&proxy, "set", "reviews 100").await;
    assert!(matches!(held(&actuator).await, Some(Observed::Overridden(_))));
    assert!(actuator.apply(&change(quarter())).await.is_err());
    // When the guard has let retries back on, the dispute is forgotten and their entry stays.
    actuator.apply(&change(RetryState::Original)).await.unwrap();
    let map = command(&proxy, "show", "").await;
    assert!(
        map.contains("reviews 100") && !map.contains("retryguard/"),
        "{map}"
    );
}

#[tokio::test]
#[ignore = "needs HAProxy"]
async fn a_socket_or_a_map_that_is_missing_is_named() {
    let service = Service::start(true).await;
    let proxy = haproxy(&service);
    let with = |socket: &str, map: &str| {
        let settings = HaproxySettings {
            sockets: vec![socket.to_owned()],
            map: map.to_owned(),
        };
        Actuating::start(&settings, Vec::new()).unwrap()
    };
    let places = proxy.places();
    let socket = places.socket.to_string_lossy();
    let error = with(&socket, "/no/such.map")
        .find()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/no/such.map") && error.contains("level admin"),
        "{error}"
    );
    let error = with("/no/such.sock", "/a.map").find().await.unwrap_err();
    assert!(matches!(error, ActuatorError::Unreachable { .. }), "{error}");
    // A port that speaks another protocol.
    let other = format!("127.0.0.1:{}", places.metrics);
    assert!(with(&other, "/a.map").find().await.is_err());
}

/// The whole of it: HAProxy's own metrics, the guard, the map.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs HAProxy"]
async fn an_outage_is_noticed_and_its_end_too() {
    let service = Service::start(false).await;
    let proxy = haproxy(&service);
    let places = proxy.places();
    let controller = Controller::start(&format!(
        "sources: {{scrape: {{addresses: [\"{}\"]}}}}\n\
         actuators: {{haproxy: {{sockets: [\"{}\"], map: \"{}\"}}}}\n\
         targets: {{reviews: {{scrape: {{haproxy: {{}}}}}}}}\n",
        proxy.metrics(),
        places.socket.display(),
        places.map.display()
    ))
    .await;
    let (client, url) = (client(), proxy.url());
    let load = tokio::spawn(async move {
        loop {
            let _ = client.get(&url).send().await;
            pause(15).await;
        }
    });
    until("data", || async {
        controller.status().await["targets"][0]["calls"].is_number()
    })
    .await;
    service.sick.store(true, Ordering::Relaxed);
    until("suspended", || async {
        let target = &controller.status().await["targets"][0];
        target["state"] == "suspended" && target["actuators"][0]["holds"] == "suspended"
    })
    .await;
    assert!(command(&proxy, "show", "").await.contains("reviews 0"));
    service.sick.store(false, Ordering::Relaxed);
    until("allowed", || async { controller.state().await == "allowed" }).await;
    load.abort();
    assert_eq!(controller.stop().await, Ended::Restored);
    assert_eq!(command(&proxy, "show", "").await.trim(), "");
}
