//! A policy at an HTTP address, polled in real time: the shortest period that a policy may set is a second.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::get,
};
use retryguard::{
    for_http::Http,
    machines::breaker,
    remote::{LivePolicy, RemoteError},
};
use tower::{Layer, ServiceExt};

use super::{WRONG, retries, text};
use crate::support::{
    loopback::{Served, serve},
    scripted::{self, Scripted},
    time::{now, until},
};

/// reqwest says "scheme is not http" to an address that is https.
#[cfg(not(any(feature = "rustls", feature = "rustls-no-provider")))]
#[tokio::test]
async fn an_https_address_without_tls_says_what_to_switch_on() {
    let refused = LivePolicy::http("https://127.0.0.1:1/policy").await.unwrap_err();
    assert!(matches!(refused, RemoteError::NoTls), "{refused}");
    assert!(refused.to_string().contains("feature `rustls`"), "{refused}");
}

/// A server of policies that counts its answers.
#[derive(Clone)]
struct Source(Arc<Mutex<Served200>>);

struct Served200 {
    answer: Result<String, StatusCode>,
    version: u32,
    whole: usize,
    unchanged: usize,
    failed: usize,
    asked_at: Vec<tokio::time::Instant>,
}

impl Source {
    fn new(text: String) -> Self {
        Self(Arc::new(Mutex::new(Served200 {
            answer: Ok(text),
            version: 1,
            whole: 0,
            unchanged: 0,
            failed: 0,
            asked_at: Vec::new(),
        })))
    }

    async fn serve(&self) -> Served {
        serve(
            Router::new()
                .route("/policy", get(Self::answer))
                .with_state(self.clone()),
        )
        .await
    }

    async fn answer(State(source): State<Self>, headers: HeaderMap) -> axum::response::Response {
        let mut source = source.0.lock().unwrap();
        source.asked_at.push(now());
        let etag = format!("\"{}\"", source.version);
        match source.answer.clone() {
            Err(status) => {
                source.failed += 1;
                status.into_response()
            }
            Ok(_) if headers.get("if-none-match").is_some_and(|known| *known == *etag) => {
                source.unchanged += 1;
                StatusCode::NOT_MODIFIED.into_response()
            }
            Ok(text) => {
                source.whole += 1;
                ([("etag", etag)], text).into_response()
            }
        }
    }

    fn set(&self, answer: Result<String, StatusCode>) {
        let mut source = self.0.lock().unwrap();
        source.answer = answer;
        source.version += 1;
    }

    fn get<T>(&self, of: impl Fn(&Served200) -> T) -> T {
        of(&self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn a_policy_is_sent_again_only_when_it_has_changed() {
    let source = Source::new(text(1));
    let server = source.serve().await;
    let live = LivePolicy::http(server.url("/policy")).await.unwrap();
    let layer = live.http_layer("it", Http::new());
    let failing = layer.layer(Scripted::new([scripted::status(500)]));
    for _ in 0..3 {
        let _ = failing.clone().oneshot(scripted::get()).await;
    }
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    until("it is asked again", || source.get(|source| source.unchanged) >= 2).await;
    assert_eq!((retries(&live), source.get(|source| source.whole)), (1, 1));
    source.set(Ok(text(3)));
    until("the change has come", || retries(&live) == 3).await;
    assert_eq!(source.get(|source| source.whole), 2);
    assert_eq!(
        layer.handle().status().breaker,
        breaker::State::Open,
        "its state has survived"
    );
}

#[tokio::test]
async fn a_wrong_policy_and_a_failing_server_leave_the_last_good_one_in_force() {
    let source = Source::new(text(1));
    let server = source.serve().await;
    let live = LivePolicy::http(server.url("/policy")).await.unwrap();
    source.set(Ok(WRONG.to_owned()));
    until("the wrong one was fetched", || {
        source.get(|source| source.whole) == 2
    })
    .await;
    assert_eq!(retries(&live), 1);
    source.set(Err(StatusCode::INTERNAL_SERVER_ERROR));
    until("the server has failed", || {
        source.get(|source| source.failed) >= 1
    })
    .await;
    assert_eq!(retries(&live), 1);
    source.set(Ok(text(5)));
    until("the good one has come", || retries(&live) == 5).await;
}

#[tokio::test]
async fn a_program_does_not_start_without_a_policy() {
    let source = Source::new(WRONG.to_owned());
    let server = source.serve().await;
    let wrong = LivePolicy::http(server.url("/policy")).await.unwrap_err();
    assert!(matches!(wrong, RemoteError::Wrong(_)), "{wrong}");
    let absent = LivePolicy::http(server.url("/elsewhere")).await.unwrap_err();
    assert!(matches!(absent, RemoteError::Status(404)), "{absent}");
    let url = server.url("/policy");
    drop(server);
    until("the server is gone", || {
        std::net::TcpStream::connect(url_address(&url)).is_err()
    })
    .await;
    let gone = LivePolicy::http(url).await.unwrap_err();
    assert!(matches!(gone, RemoteError::Fetch(_)), "{gone}");
}

fn url_address(url: &str) -> String {
    url.trim_start_matches("http://")
        .trim_end_matches("/policy")
        .to_owned()
}

#[tokio::test]
async fn a_fleet_that_starts_together_does_not_poll_together() {
    const FLEET: usize = 12;
    let source = Source::new(text(1));
    let server = source.serve().await;
    let mut fleet = Vec::new();
    for _ in 0..FLEET {
        fleet.push(LivePolicy::http(server.url("/policy")).await.unwrap());
    }
    let polls = || source.get(|source| source.asked_at[FLEET..].to_vec());
    until("all have polled", || polls().len() >= FLEET).await;
    let polls = polls();
    let spread = polls[FLEET - 1].duration_since(polls[0]);
    assert!(
        spread > Duration::from_millis(100),
        "{FLEET} clients polled within {spread:?}"
    );
}
