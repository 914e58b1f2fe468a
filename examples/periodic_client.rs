//! A client that asks once in a while, by the rules for safe clients: the moment is drawn anew in every
//! period, retries end before the next period begins, and the period and a switch for the feature come from
//! afar.
//!
//! `cargo run -p retryguard-examples --example periodic_client`

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use retryguard::{
    for_http::Http,
    for_reqwest::{Client, Reqwest},
    remote::LivePolicy,
};
use retryguard_examples::{pause, serve};

fn policy(features_off: &str) -> String {
    format!(
        "
services:
  updates:
    period: 300ms
    stopBeyond: 300ms   # by then the next regular request is due anyway
    initialDelay: 40ms
    maxRetries: 5
    jitterFactor: 0.5
    budget: {{percent: 100%}}
    featuresOff: [{features_off}]
"
    )
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = serve(Router::new().route("/", get(updates))).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.yaml");
    std::fs::write(&path, policy(""))?;

    let live = LivePolicy::file(&path)?;
    let protocol = Reqwest::new(Http::new().client("periodic_client", env!("CARGO_PKG_VERSION")));
    let inner = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(retryguard::for_reqwest::redirects())
        .build()?;
    let client = Client::from_layer(inner, &live.layer("updates", protocol)).reports_redirects();
    let periodic = live.periodic("updates", Duration::from_secs(300));

    let work = tokio::spawn({
        let periodic = periodic.clone();
        async move {
            periodic
                .run("update-check", || async {
                    let result = check(&client, &url).await;
                    println!(
                        "update check: {}",
                        result.unwrap_or_else(|error| error.to_string())
                    );
                })
                .await;
        }
    });

    pause(2_000).await;
    println!("the operator switches update checks off");
    std::fs::write(&path, policy("update-check"))?;
    while periodic.is_on("update-check") {
        pause(50).await;
    }
    println!("they are off");
    pause(700).await;
    work.abort();
    Ok(())
}

async fn check(client: &Client, url: &str) -> anyhow::Result<String> {
    let request = client
        .get(url)
        .feature("update-check")
        .criticality(retryguard::Criticality::Sheddable);
    let response = request.send().await?;
    let attempts = retryguard::Report::of(response.extensions()).attempts;
    Ok(format!("{} after {attempts} attempts", response.status()))
}

/// Fails one request in three.
async fn updates() -> StatusCode {
    static REQUESTS: AtomicU32 = AtomicU32::new(1);
    let fails = REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
    if fails {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::NO_CONTENT
    }
}
