//! The five services. None of them knows a pattern: what protects them comes from the policy, through the layers
//! around their routes and their clients.

mod gateway;
mod inventory;
mod notifications;
mod orders;
mod outbox;
mod payments;

use axum::Router;
use http::HeaderMap;

use crate::{answer::Problem, name::Name, site::Site};

/// The header that carries an idempotency key.
pub(crate) const KEY: &str = "idempotency-key";

/// The routes of a service.
pub(crate) async fn routes(site: &Site) -> anyhow::Result<Router> {
    match site.name {
        Name::Gateway => gateway::routes(site),
        Name::Orders => orders::routes(site).await,
        Name::Payments => payments::routes(site).await,
        Name::Inventory => inventory::routes(site).await,
        Name::Notifications => notifications::routes(site).await,
    }
}

/// The key of a request.
fn key_of(headers: &HeaderMap) -> Option<String> {
    let key = headers.get(KEY)?.to_str().ok()?;
    // The draft writes keys as quoted strings.
    Some(key.trim_matches('"').to_owned())
}

/// A customer's reference: short and plain, because it stands in paths, rows and keys.
fn check_reference(reference: &str) -> Result<(), Problem> {
    let plain = reference
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if reference.is_empty() || reference.len() > 64 || !plain {
        return Err(Problem::bad(
            "`order` is a reference of 1 to 64 letters, digits, `-` and `_`",
        ));
    }
    Ok(())
}
