//! An axum server that sheds load: background work first, retries before first attempts.
//!
//! `cargo run -p retryguard-examples --example axum_server`

use axum::{Router, routing::get};
use retryguard::{
    Policy,
    for_http::tags::{ATTEMPT, CRITICALITY},
    server::ServerLayer,
};
use retryguard_examples::{pause, serve};

const POLICY: &str = "
services:
  search:
    server:
      inFlight: 20      # requests inside, all together; of these, background retries may fill 50 %, background
                        # first attempts 60 %, critical retries 90 %
      retryAfter: 2s    # the Retry-After of refused clients, spread over as much again
      deadline: 5s      # no request is worked on for longer
";

/// Criticality, attempt, and how many such requests come at once, in the order of their arrival.
const CROWD: [(&str, &str, usize); 4] = [
    ("sheddable", "1", 20),
    ("sheddable", "2", 20),
    ("critical", "1", 4),
    ("critical", "2", 4),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let policy = Policy::parse(POLICY)?;
    let router = Router::new()
        .route("/", get(async || pause(200).await))
        .layer(ServerLayer::new(&policy, "search"));
    let url = serve(router).await?;

    // Our own client layers send these tags; here they are written by hand.
    let client = reqwest::Client::new();
    let mut crowd = Vec::new();
    for (criticality, attempt, requests) in CROWD {
        for _ in 0..requests {
            let request = client
                .get(&url)
                .header(CRITICALITY, criticality)
                .header(ATTEMPT, attempt);
            crowd.push((criticality, attempt, tokio::spawn(request.send())));
        }
        pause(20).await;
    }
    let mut answers = Vec::new();
    for (criticality, attempt, task) in crowd {
        answers.push((criticality, attempt, task.await??));
    }

    println!("criticality  attempt  served  shed");
    for (criticality, attempt, requests) in CROWD {
        let of_these = answers
            .iter()
            .filter(|(level, number, _)| (*level, *number) == (criticality, attempt));
        let served = of_these
            .filter(|(_, _, answer)| answer.status().is_success())
            .count();
        println!(
            "{criticality:11}  {attempt:7}  {served:6}  {:4}",
            requests - served
        );
    }
    let refused = answers
        .into_iter()
        .find(|(_, _, answer)| !answer.status().is_success());
    if let Some((_, _, refused)) = refused {
        println!("\none of the refusals: {}", refused.status());
        for (name, value) in refused.headers() {
            println!("  {name}: {}", value.to_str()?);
        }
        println!("  {}", refused.text().await?.trim_end());
    }
    Ok(())
}
