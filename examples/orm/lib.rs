//! What both examples do with their server: the same payment is sent twice.

use anyhow::Context as _;
use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// Sends one payment twice under one key and prints both answers.
pub async fn pay_twice(app: &Router) -> anyhow::Result<()> {
    for _ in 0..2 {
        let request = Request::post("/payments")
            .header("idempotency-key", "\"8e03978e-40d5\"")
            .body(Body::from("10 euros"))
            .context("a request")?;
        let response = app.clone().oneshot(request).await?;
        let status = response.status();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let body = response.into_body().collect().await?.to_bytes();
        println!(
            "{status}, replayed: {replayed}: {}",
            String::from_utf8_lossy(&body)
        );
    }
    Ok(())
}
