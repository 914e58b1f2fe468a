//! A service behind a real Envoy, and the hands that the tests have on both.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::StatusCode;
use retryguard_controller::adapters::actuator::envoy::{Admin, Rtds};
use retryguard_controller::config::actuator::envoy as settings;
use retryguard_controller::config::listen::Listen;
use retryguard_controller::domain::state::{Change, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_core::ratio::Ratio;
use retryguard_parts::Envoy;

/// The bootstrap that we ship, with the ports of a test.
pub(crate) fn bootstrap(listener: u16, admin: u16, service: u16, controller: u16) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/envoy/bootstrap.yaml");
    std::fs::read_to_string(path)
        .expect("the bootstrap is in deploy/envoy")
        .replace("port_value: 10000", &format!("port_value: {listener}"))
        .replace("port_value: 9901", &format!("port_value: {admin}"))
        .replace("port_value: 8080", &format!("port_value: {service}"))
        .replace("port_value: 18000", &format!("port_value: {controller}"))
}

/// A service that is down: it answers every attempt with 503, and counts them.
pub(crate) struct Down {
    pub(crate) port: u16,
    attempts: Arc<AtomicU64>,
}

impl Down {
    pub(crate) async fn start() -> Self {
        let attempts = Arc::new(AtomicU64::new(0));
        let app = Router::new()
            .fallback(|State(attempts): State<Arc<AtomicU64>>| async move {
                attempts.fetch_add(1, Ordering::Relaxed);
                StatusCode::SERVICE_UNAVAILABLE
            })
            .with_state(Arc::clone(&attempts));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, attempts }
    }

    /// The attempts that have arrived.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// How many attempts one call through this Envoy comes to.
    pub(crate) async fn attempts_of_a_call(&self, envoy: &Envoy) -> u64 {
        let before = self.attempts.load(Ordering::Relaxed);
        let status = client().get(envoy.url()).send().await.unwrap().status();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        self.attempts.load(Ordering::Relaxed) - before
    }
}

pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .no_proxy()
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap()
}

/// An Envoy before `service` that asks the controller on `controller`; `edit` may change its bootstrap.
pub(crate) fn envoy(service: u16, controller: u16, edit: impl Fn(String) -> String) -> Envoy {
    Envoy::start(|ports| edit(bootstrap(ports.listener, ports.admin, service, controller)))
}

pub(crate) fn reviews() -> TargetName {
    TargetName::new("reviews")
}

pub(crate) fn target(clusters: &[&str]) -> settings::EnvoyTarget {
    settings::EnvoyTarget {
        clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
        budget: Ratio::ONE,
    }
}

pub(crate) fn rtds_settings(port: u16) -> settings::Rtds {
    settings::Rtds {
        listen: Listen {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            tls: None,
            token_file: None,
        },
        layer: settings::RTDS_LAYER.to_owned(),
        learn_for: Duration::from_millis(200),
        confirm_within: Duration::from_secs(60),
    }
}

pub(crate) async fn rtds(port: u16) -> Rtds {
    rtds_with(&rtds_settings(port)).await
}

pub(crate) async fn rtds_with(settings: &settings::Rtds) -> Rtds {
    // A server that was dropped a moment ago may still hold the port.
    for _ in 0..1_200 {
        if let Ok(rtds) = Rtds::start(settings, vec![(reviews(), target(&["reviews"]))]).await {
            return rtds;
        }
        pause(50).await;
    }
    panic!("no server on {}", settings.listen.address);
}

pub(crate) fn admin(addresses: &[String], clusters: &[&str]) -> Admin {
    let settings = settings::Admin {
        addresses: addresses.to_vec(),
        layer: settings::ADMIN_LAYER.to_owned(),
    };
    Admin::start(&settings, vec![(reviews(), target(clusters))]).unwrap()
}

pub(crate) fn change(desired: RetryState) -> Change {
    Change {
        target: reviews(),
        desired,
        why: "a test wants it".to_owned(),
        term: 1,
    }
}

pub(crate) fn half() -> RetryState {
    RetryState::Part {
        step: 2,
        share: Ratio::percent(50),
    }
}

/// Applies, and gives the losses as text.
pub(crate) async fn apply(actuator: &dyn Actuator, desired: RetryState) -> Vec<String> {
    let losses = actuator.apply(&change(desired)).await.unwrap();
    losses.into_iter().map(|loss| loss.0).collect()
}

/// Waits until so many streams want our layer.
pub(crate) async fn streams(rtds: &Rtds, wanted: u64) {
    until("streams", || async {
        rtds.details()["streams"].as_u64() >= Some(wanted)
    })
    .await;
}

/// Asks again and again, for two minutes at least.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..2_400 {
        if holds().await {
            return;
        }
        pause(50).await;
    }
    panic!("never came: {what}");
}

pub(crate) async fn pause(milliseconds: u64) {
    retryguard_controller::clock::sleep(Duration::from_millis(milliseconds)).await;
}
