//! A reqwest client of a service with three endpoints, of which one breaks and recovers.
//!
//! `cargo run -p retryguard-examples --example endpoints`

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, http::StatusCode, routing::get};
use retryguard::{Policy, for_reqwest::Client};
use retryguard_examples::{pause, serve};

const POLICY: &str = "
services:
  stock:
    initialDelay: 10ms
    endpoints: {outFor: 300ms}
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let broken = Arc::new(AtomicBool::new(false));
    let bases = [
        serve(stock(broken.clone())).await?,
        serve(stock(Arc::default())).await?,
        serve(stock(Arc::default())).await?,
    ];
    let bases = bases.each_ref().map(String::as_str);
    let client = Client::with_endpoints(&Policy::parse(POLICY)?, "stock", &bases)?;

    calls(&client, 100).await?;
    broken.store(true, Ordering::SeqCst);
    println!("one of three endpoints answers 503:");
    let served = calls(&client, 100).await?;
    println!("  {served} of 100 calls were served");
    show(&client);

    broken.store(false, Ordering::SeqCst);
    while !client
        .endpoints()
        .iter()
        .all(retryguard::endpoints::EndpointStatus::is_in)
    {
        calls(&client, 1).await?;
        pause(10).await;
    }
    println!("it is well again:");
    show(&client);
    Ok(())
}

/// The host of the URL is replaced by that of an endpoint.
async fn calls(client: &Client, count: usize) -> anyhow::Result<usize> {
    let mut served = 0;
    for _ in 0..count {
        let response = client.get("http://stock/items").send().await?;
        served += usize::from(response.status().is_success());
    }
    Ok(served)
}

fn show(client: &Client) {
    for (number, endpoint) in client.endpoints().iter().enumerate() {
        let state = if endpoint.is_in() { "used" } else { "left out" };
        println!("  endpoint {number}: {state}");
    }
}

fn stock(broken: Arc<AtomicBool>) -> Router {
    let items = move || {
        let broken = broken.load(Ordering::SeqCst);
        async move {
            if broken {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::OK
            }
        }
    };
    Router::new().route("/items", get(items))
}
