//! Takes an order, has it reserved and paid, and has the customer told. An order that is not paid is not a success.

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    response::Response,
    routing::{get, post},
};
use http::{HeaderMap, StatusCode};
use retryguard_store::idempotency::Claim;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{check_reference, key_of, outbox};
use crate::{
    answer::{Body, Problem},
    database::{Finish, Item, OrderRow, Outbox},
    name::Name,
    site::{
        Site,
        client::{Answer, Downstream},
    },
    trace::Span,
};

/// The most kinds of goods that one order names.
const MOST_ITEMS: usize = 20;

/// The most of one kind.
const MOST_QUANTITY: u32 = 1000;

/// An order as it is placed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// The customer's own reference. Two requests with one reference mean one order, whatever their keys say.
    pub(crate) order: String,
    pub(crate) items: Vec<Item>,
}

impl Order {
    pub(crate) fn check(&self) -> Result<(), Problem> {
        check_reference(&self.order)?;
        if self.items.is_empty() || self.items.len() > MOST_ITEMS {
            return Err(Problem::bad(format!("`items` has 1 to {MOST_ITEMS} entries")));
        }
        if self
            .items
            .iter()
            .any(|item| item.quantity == 0 || item.quantity > MOST_QUANTITY)
        {
            return Err(Problem::bad(format!(
                "a `quantity` lies between 1 and {MOST_QUANTITY}"
            )));
        }
        Ok(())
    }

    /// Prices are made up, and always the same: a cent for the number of the goods, and a euro.
    fn amount(&self) -> i64 {
        self.items
            .iter()
            .map(|item| i64::from(item.quantity) * (100 + i64::from(item.sku % 100)))
            .sum()
    }
}

#[derive(Clone)]
struct Orders {
    site: Site,
    inventory: Downstream,
    payments: Downstream,
    notifications: Downstream,
    /// Where the policy has calls to notifications carry keys.
    outbox: Option<Outbox>,
}

pub(super) async fn routes(site: &Site) -> anyhow::Result<Router> {
    let notifications = site.downstream(Name::Notifications)?;
    let outbox = if site.has_keys(Name::Notifications) {
        Some(outbox::start(site, notifications.clone()).await?)
    } else {
        None
    };
    let orders = Orders {
        site: site.clone(),
        inventory: site.downstream(Name::Inventory)?,
        payments: site.downstream(Name::Payments)?,
        notifications,
        outbox,
    };
    Ok(Router::new()
        .route("/orders", post(place))
        .route("/orders/{order}", get(look))
        .with_state(orders))
}

async fn place(
    State(orders): State<Orders>,
    headers: HeaderMap,
    claim: Option<Extension<Claim>>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    order.check()?;
    let life = orders.site.life.clone();
    let claim = claim.map(|Extension(claim)| claim);
    life.outlive(async move { orders.fulfil(&order, key_of(&headers), claim).await })
        .await
        .unwrap_or_else(|| Err(too_late()))
}

async fn look(State(orders): State<Orders>, Path(order): Path<String>) -> Result<Json<OrderRow>, Problem> {
    check_reference(&order)?;
    let row = orders.site.database.order(&order).await?;
    row.map(Json)
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("there is no order {order}")))
}

impl Orders {
    async fn fulfil(
        &self,
        order: &Order,
        key: Option<String>,
        claim: Option<Claim>,
    ) -> Result<Response, Problem> {
        let database = &self.site.database;
        let amount = order.amount();
        let scoped = claim.as_ref().map(|claim| hex(&claim.id().0));
        let number = database
            .insert_order(&order.order, amount, scoped.as_deref())
            .await?;
        // The keys of what an order causes follow from its own: an order that is worked on again after a crash
        // reserves and charges under the keys that it had.
        let derived = |purpose: &str| key.as_ref().map(|key| format!("{key}.{purpose}"));

        let items = json!({"order": order.order, "items": order.items});
        let reserved = self
            .inventory
            .post("/reservations", derived("reserve").as_deref(), &items)
            .await;
        if let Err(problem) = came_to("inventory", reserved) {
            database.set_status(number, "not_reserved").await?;
            return Err(problem);
        }
        let charge = json!({"order": order.order, "amount": amount});
        let charged = self
            .payments
            .post("/charges", derived("charge").as_deref(), &charge)
            .await;
        if let Err(problem) = came_to("payments", charged) {
            database.set_status(number, "payment_failed").await?;
            return Err(problem);
        }
        let row = OrderRow {
            order: order.order.clone(),
            status: "paid".to_owned(),
            amount,
        };
        self.conclude(number, Finish::created(claim, &row), order).await
    }

    /// Notes that the order is paid and has the customer told: in one transaction where there is an outbox, and
    /// otherwise a row first and a request afterwards, which a crash between the two loses.
    async fn conclude(&self, number: i64, finish: Finish, order: &Order) -> Result<Response, Problem> {
        let database = &self.site.database;
        if let Some(outbox) = &self.outbox {
            let event = outbox::event(&order.order);
            let response = database.conclude(number, Some((outbox, &event)), finish).await?;
            outbox.wake();
            return Ok(response);
        }
        let response = database.conclude(number, None, finish).await?;
        let (notifications, reference) = (self.notifications.clone(), order.order.clone());
        self.site.life.spawn(Span::current().scope(async move {
            // No caller waits for it; its result is counted on the edge.
            let _ = notifications
                .post("/notifications", None, &json!({"order": reference}))
                .await;
        }));
        Ok(response)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer of another service as a problem of ours, unless it is a success.
fn came_to(target: &str, answer: Answer) -> Result<(), Problem> {
    let (status, _, body) = answer.map_err(|error| Problem::downstream(target, &error))?;
    if status.is_success() {
        return Ok(());
    }
    let reason: String = String::from_utf8_lossy(&body).chars().take(200).collect();
    Err(Problem::new(
        status,
        format!("{target} answered {}: {}", status.as_u16(), reason.trim()),
    ))
}

fn too_late() -> Problem {
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        "the deadline of this request has passed, or the service was killed",
    )
}
