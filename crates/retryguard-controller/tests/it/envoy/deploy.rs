//! What stands in `deploy/` is what the programs take.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use retryguard_parts::{Prometheus, free_port};
use serde_json::Value;

use super::controller::Controller;
use super::world::{Down, client, envoy, pause};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

#[test]
#[ignore = "needs Envoy"]
fn the_bootstrap_is_valid() {
    let envoy = retryguard_parts::need("envoy");
    let output = Command::new(envoy)
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(deploy().join("envoy/bootstrap.yaml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "needs Prometheus"]
fn the_rules_fire_when_they_should_and_only_then() {
    let promtool = retryguard_parts::need("promtool");
    let output = Command::new(promtool)
        .args(["test", "rules", "rules.test.yaml"])
        .current_dir(deploy().join("prometheus"))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Every query of the dashboard, with the window that Grafana would put in.
fn queries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(deploy().join("grafana/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"]
                .as_str()
                .unwrap()
                .replace("$__rate_interval", "20s");
            found.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    found
}

/// The three kinds of data that the dashboard shows, each from the real thing: an Envoy in a storm, a service with
/// the library that calls something half broken, and a controller that switches.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Prometheus"]
async fn every_query_of_the_dashboard_finds_something() {
    let service = Down::start().await;
    let port = free_port();
    let envoy = envoy(service.port, port, |text| text);
    let library = library(service.port).await;
    let controller = Arc::new(
        Controller::start(&format!(
            "sources: {{scrape: {{addresses: [\"{}/stats/prometheus\"]}}}}\n\
             actuators: {{envoy-rtds: {{listen: \"127.0.0.1:{port}\", learnFor: 1s}}}}\n\
             targets: {{reviews: {{scrape: {{envoy: {{}}}}}}}}\n",
            envoy.admin()
        ))
        .await,
    );
    let asked = Arc::clone(&controller);
    let status = page(move || {
        let asked = Arc::clone(&asked);
        async move { asked.metrics().await }
    })
    .await;
    let prometheus = Prometheus::start(&format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n\
         - {{job_name: envoy, metrics_path: /stats/prometheus, static_configs: [{{targets: ['127.0.0.1:{}']}}]}}\n\
         - {{job_name: library, static_configs: [{{targets: ['127.0.0.1:{library}']}}]}}\n\
         - {{job_name: controller, static_configs: [{{targets: ['127.0.0.1:{status}']}}]}}\n",
        envoy.ports().admin
    ));
    let url = envoy.url();
    let mut calls = tokio::task::JoinSet::new();
    let mut call = |callers: usize| {
        for _ in 0..callers {
            let url = url.clone();
            calls.spawn(async move {
                let client = client();
                loop {
                    let _ = client.get(&url).send().await;
                }
            });
        }
    };
    call(1);
    let client = client();
    let mut left = queries();
    assert!(left.len() > 15, "{left:?}");
    for turn in 0..240 {
        // One caller makes too few calls for a decision, so retries go on; many make enough, and retries are suspended.
        if turn == 40 {
            call(16);
        }
        let mut empty = Vec::new();
        for (title, query) in left {
            let answer = client
                .post(format!("{}/api/v1/query", prometheus.url()))
                .header("content-type", "application/x-www-form-urlencoded")
                .body(format!("query={}", encoded(&query)))
                .send()
                .await
                .unwrap();
            let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            assert_eq!(answer["status"], "success", "{title}: {query}: {answer}");
            if answer["data"]["result"].as_array().unwrap().is_empty() {
                empty.push((title, query));
            }
        }
        left = empty;
        if left.is_empty() {
            break;
        }
        pause(500).await;
    }
    calls.abort_all();
    assert!(left.is_empty(), "these find nothing: {left:#?}");
}

/// A service with the library: its metrics, and calls without end.
async fn library(port: u16) -> u16 {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .unwrap();
    let policy = retryguard::Policy::parse("services: {pay: {initialDelay: 5ms}}").unwrap();
    let client = retryguard::for_reqwest::Client::new(&policy, "pay").unwrap();
    tokio::spawn(async move {
        loop {
            let _ = client.get(format!("http://127.0.0.1:{port}/")).await;
            pause(20).await;
        }
    });
    page(move || std::future::ready(recorder.render())).await
}

/// Serves a page of metrics; its port.
async fn page<F: Future<Output = String> + Send>(
    text: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> u16 {
    let app = axum::Router::new().fallback(text);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
