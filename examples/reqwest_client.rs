//! A reqwest client under a policy, against a server that fails in every way it can.
//!
//! `cargo run -p retryguard-examples --example reqwest_client`

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use retryguard::{Policy, Report, for_http::tags::ATTEMPT, for_reqwest::Client};
use retryguard_examples::serve;

/// What a test or a deployment would keep in a file.
const POLICY: &str = "
services:
  shop:
    maxRetries: 2
    initialDelay: 20ms
    budget: {percent: 100%}
    breaker: {trip: consecutive, failures: 5, openFor: 10s}
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = serve(shop()).await?;
    let client = Client::new(&Policy::parse(POLICY)?, "shop")?;

    println!("a server that fails every first attempt:");
    for _ in 0..3 {
        show(client.get(format!("{url}/flaky")).await);
    }
    println!("a bad request, which no retry can help:");
    show(client.get(format!("{url}/nowhere")).await);
    println!("a payment, which must not be made twice:");
    show(client.post(format!("{url}/pay")).send().await);
    println!("the same with an idempotency key:");
    let payment = client
        .post(format!("{url}/pay"))
        .header("idempotency-key", "\"8e03978e\"");
    show(payment.send().await);
    println!("a server that is down, until the breaker opens:");
    for _ in 0..4 {
        show(client.get(format!("{url}/down")).await);
    }
    println!("{:?}", client.handle().status());
    Ok(())
}

/// A failed response is still a response; an error says which part refused and why.
fn show(result: Result<reqwest::Response, retryguard::Error<reqwest::Error>>) {
    match result {
        Ok(response) => {
            let report = Report::of(response.extensions());
            let attempts = report.attempts;
            let why = report.failed.map(|(kind, why)| format!(" ({kind}: {why})"));
            println!(
                "  {} after {attempts} attempts{}",
                response.status(),
                why.unwrap_or_default()
            );
        }
        Err(error) => println!("  {error}"),
    }
}

fn shop() -> Router {
    // Every first attempt fails.
    let flaky = async |headers: HeaderMap| {
        // Only later attempts are numbered.
        let is_first = headers.get(ATTEMPT).is_none();
        if is_first {
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::OK
        }
    };
    Router::new()
        .route("/flaky", get(flaky))
        .route("/pay", post(flaky))
        .route("/down", get(async || StatusCode::SERVICE_UNAVAILABLE))
}
