//! Tells customers: one row for each time that one was told.

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::check_reference;
use crate::{
    answer::{Body, Problem},
    system::site::Site,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notification {
    order: String,
}

pub(super) async fn routes(site: &Site) -> anyhow::Result<Router> {
    Ok(Router::new()
        .route("/notifications", post(tell))
        .with_state(site.clone()))
}

async fn tell(State(site): State<Site>, Body(notification): Body<Notification>) -> Result<Response, Problem> {
    check_reference(&notification.order)?;
    site.database.notify(&notification.order).await?;
    Ok((StatusCode::CREATED, Json(json!({"told": notification.order}))).into_response())
}
