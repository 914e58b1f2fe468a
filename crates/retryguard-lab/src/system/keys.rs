//! Keys that are honoured, where the policy says that calls carry them.

use axum::Router;
use retryguard_store::idempotency::IdempotencyLayer;
use std::time::Duration;

use crate::{name::Name, site::Site};

/// How long a request may be worked on before a duplicate takes it over, and how long a duplicate waits, as described.
const LOCK: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(5);

/// The routes with the layer around them. The gateway has no effects of its own and passes keys on.
pub(super) async fn honour(site: &Site, routes: Router) -> anyhow::Result<Router> {
    if site.name == Name::Gateway || !site.has_keys(site.name) {
        return Ok(routes);
    }
    let store = site.database.keys(&site.settings.backing, site.name).await?;
    let scale = site.settings.scale;
    let layer = IdempotencyLayer::shared(store)
        .accept_bare_keys(true)
        .namespace(site.name.as_str())
        .lock(scale.span(LOCK))
        .wait(scale.span(WAIT))
        .store_timeout(Duration::from_secs(5))
        .request_limit(crate::answer::LARGEST_BODY);
    Ok(routes.layer(layer))
}
