//! The library's metrics as Prometheus scrapes them. A program of one's own would serve the text at
//! `/metrics`; this one prints it.
//!
//! `cargo run -p retryguard-examples --example prometheus`

use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, http::StatusCode, routing::get};
use metrics_exporter_prometheus::PrometheusBuilder;
use retryguard::{Policy, for_reqwest::Client, server::ServerLayer};
use retryguard_examples::serve;

const POLICY: &str = "
services:
  prices:
    initialDelay: 5ms
    breaker: {trip: consecutive, failures: 20, openFor: 1s}
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let prometheus = PrometheusBuilder::new().install_recorder()?;
    let policy = Policy::parse(POLICY)?;
    let router = Router::new()
        .route("/", get(prices))
        .layer(ServerLayer::new(&policy, "prices"));
    let url = serve(router).await?;
    let client = Client::new(&policy, "prices")?;
    for _ in 0..60 {
        // What became of each call is in the metrics.
        let _ = client.get(&url).await;
    }

    let scraped = prometheus.render();
    // A counter that has not moved yet is scraped too; it would fill the page.
    for line in scraped.lines().filter(|line| !line.ends_with(" 0")) {
        println!("{line}");
    }
    Ok(())
}

/// Well at first, then unavailable.
async fn prices() -> StatusCode {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    match REQUESTS.fetch_add(1, Ordering::Relaxed) {
        number if number >= 20 => StatusCode::SERVICE_UNAVAILABLE,
        number if number % 5 == 3 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::OK,
    }
}
