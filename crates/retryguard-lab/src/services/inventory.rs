//! Reserves goods: locks their rows, takes them off the shelves, frees the rows.

use std::time::Duration;

use axum::{Extension, Router, extract::State, response::Response, routing::post};
use http::StatusCode;
use retryguard_store::idempotency::Claim;
use serde_json::json;

use crate::{
    answer::{Body, Problem},
    database::{Finish, Item, Reservation, Reserved},
    services::orders::Order,
    site::Site,
    station::Station,
};

/// What is on every shelf at the start.
const EACH: i64 = 1_000_000_000;

/// How long a row stays locked whose holder has died, as described.
const LEASE: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Inventory {
    site: Site,
    station: Station,
}

pub(super) async fn routes(site: &Site) -> anyhow::Result<Router> {
    site.database.stock_up(site.settings.goods, EACH).await?;
    let station = Station::new(site.settings.inventory);
    site.counts.watch_station(site.name, station.clone());
    let inventory = Inventory {
        site: site.clone(),
        station,
    };
    Ok(Router::new()
        .route("/reservations", post(reserve))
        .with_state(inventory))
}

async fn reserve(
    State(inventory): State<Inventory>,
    claim: Option<Extension<Claim>>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    order.check()?;
    let life = inventory.site.life.clone();
    let claim = claim.map(|Extension(claim)| claim);
    life.outlive(async move { inventory.work(order, claim).await })
        .await
        .unwrap_or_else(|| {
            Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the caller of this reservation has stopped waiting",
            ))
        })
}

impl Inventory {
    async fn work(&self, order: Order, claim: Option<Claim>) -> Result<Response, Problem> {
        let Ok(_place) = self.station.enter().await else {
            return Err(Problem::unavailable("every worker is busy and the queue is full"));
        };
        let settings = &self.site.settings;
        let time = self
            .site
            .dice
            .around(settings.reservation_time.usual, settings.reservation_time.spread);
        let finish = Finish::created(claim, &json!({"order": order.order}));
        let wanted = Reservation {
            order: order.order,
            items: merged(order.items),
            hold: settings.scale.span(time) + self.site.faults.lock_delay(),
            lease: settings.scale.span(LEASE),
            holder: i64::try_from(self.site.dice.bits() >> 1).unwrap_or(1),
        };
        match self.site.database.reserve(&wanted, finish).await? {
            Reserved::Done(response) => Ok(response),
            Reserved::Unknown => Err(Problem::bad("one of the goods is not on sale")),
            Reserved::TooFew => Err(Problem::new(StatusCode::CONFLICT, "there is not enough of it")),
        }
    }
}

/// Every kind once and in order: two orders that want the same goods never wait for each other's.
fn merged(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| item.sku);
    items.dedup_by(|next, kept| {
        let same = next.sku == kept.sku;
        if same {
            kept.quantity += next.quantity;
        }
        same
    });
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goods_named_twice_are_locked_once() {
        let items = [(7, 1), (3, 2), (7, 4)].map(|(sku, quantity)| Item { sku, quantity });
        let merged = merged(items.to_vec());
        assert_eq!(
            merged,
            [(3, 2), (7, 5)].map(|(sku, quantity)| Item { sku, quantity })
        );
    }
}
