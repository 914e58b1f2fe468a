//! Notifies customers: one row for each notification.

use axum::{Extension, Router, extract::State, response::Response, routing::post};
use retryguard_store::idempotency::Claim;
use serde::Deserialize;
use serde_json::json;

use super::check_reference;
use crate::{
    answer::{Body, Problem},
    database::Finish,
    site::Site,
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

async fn tell(
    State(site): State<Site>,
    claim: Option<Extension<Claim>>,
    Body(notification): Body<Notification>,
) -> Result<Response, Problem> {
    check_reference(&notification.order)?;
    let claim = claim.map(|Extension(claim)| claim);
    let finish = Finish::created(claim, &json!({"told": notification.order}));
    Ok(site.database.notify(&notification.order, finish).await?)
}
