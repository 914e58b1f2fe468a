//! No secret is seen in a log, a status, a metric or a `Debug` text, not even one that another server repeats.

use axum::{Router, extract::Request};
use http::StatusCode;
use retryguard_controller::config::Config;
use retryguard_controller::reconcile::control_loop::{MOST_QUERIES, Query, run};
use retryguard_controller::start;
use tokio::sync::{mpsc, oneshot};

use crate::logged::Logged;

const SOURCE_TOKEN: &str = "s0urce-t0ken-9f3a";
const STATUS_TOKEN: &str = "status-t0ken-7c1d";
const POLICY_TOKEN: &str = "p0licy-t0ken-2b8e";
const PASSWORD: &str = "redis-passw0rd-4d6f";

/// A server that fails and says what it was sent, as debug pages do.
async fn repeating() -> String {
    let app = Router::new().fallback(|request: Request| async move {
        let sent = format!("{:?}", request.headers()).replace('"', "'");
        let text = format!("{{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"{sent}\"}}");
        (StatusCode::BAD_REQUEST, text)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

async fn ask<T>(asks: &mpsc::Sender<Query>, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> T {
    let (answer, answered) = oneshot::channel();
    asks.send(query(answer)).await.unwrap();
    answered.await.unwrap()
}

/// Runs a controller until `failed` has an error in the status, and looks at everything that it shows.
async fn scan(election: &str, failed: &str) -> String {
    let (logged, _guard) = Logged::start();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("source", SOURCE_TOKEN),
        ("status", STATUS_TOKEN),
        ("policy", POLICY_TOKEN),
    ] {
        std::fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
    }
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    let text = format!(
        "sources: {{prometheus: {{url: \"{}\", tokenFile: source, every: 1s}}}}\n\
         actuators: {{policy-server: {{listen: \"127.0.0.1:0\", tokenFile: policy, folder: policies}}}}\n\
         status: {{listen: \"127.0.0.1:0\", tokenFile: status}}\n{election}\
         targets: {{reviews: {{prometheus: {{envoy: {{}}}}}}}}\n",
        repeating().await
    );
    let config = Config::parse(&text, folder.path()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let components = start::components(&config, false, true).await.unwrap();
    let (asks, questions) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(run(components, questions, async {
        let _ = stopped.await;
    }));
    let mut status = serde_json::Value::Null;
    for _ in 0..1_200 {
        status = ask(&asks, Query::Status).await;
        if status.pointer(failed).is_some_and(serde_json::Value::is_string) {
            break;
        }
        retryguard_controller::clock::sleep(std::time::Duration::from_millis(50)).await;
    }
    let metrics = ask(&asks, Query::Metrics).await;
    let _ = stop.send(());
    let _ = ended.await.unwrap();
    for (place, text) in [
        ("the log", logged.text()),
        ("the status", status.to_string()),
        ("the metrics", metrics),
        ("`Debug` of the configuration", format!("{config:?}")),
    ] {
        for secret in [SOURCE_TOKEN, STATUS_TOKEN, POLICY_TOKEN, PASSWORD] {
            assert!(!text.contains(secret), "{place} shows {secret}: {text}");
        }
    }
    let error = status.pointer(failed).and_then(serde_json::Value::as_str);
    error.expect("the part has failed").to_owned()
}

#[tokio::test]
async fn a_source_that_repeats_its_token_does_not_show_it() {
    let error = scan("", "/sources/0/error").await;
    assert!(
        error.contains("authorization"),
        "the server's words are quoted: {error}"
    );
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn the_password_of_an_election_is_not_shown() {
    let election = format!("leaderElection: {{redis: {{url: \"redis://:{PASSWORD}@127.0.0.1:1/\"}}}}\n");
    scan(&election, "/leadError").await;
}
