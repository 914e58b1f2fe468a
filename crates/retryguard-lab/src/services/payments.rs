//! Charges: a bounded number at once, each a row in the database.

use axum::{Extension, Router, extract::State, response::Response, routing::post};
use http::StatusCode;
use retryguard::Context;
use retryguard_store::idempotency::Claim;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::check_reference;
use crate::{
    answer::{Body, Problem},
    clock,
    database::Finish,
    site::Site,
    station::Station,
};

/// The largest charge, in cents.
const LARGEST: i64 = 1_000_000_000;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Charge {
    order: String,
    amount: i64,
}

#[derive(Clone)]
struct Payments {
    site: Site,
    station: Station,
}

pub(super) async fn routes(site: &Site) -> anyhow::Result<Router> {
    let station = Station::new(site.settings.payments);
    site.counts.watch_station(site.name, station.clone());
    let payments = Payments {
        site: site.clone(),
        station,
    };
    Ok(Router::new().route("/charges", post(charge)).with_state(payments))
}

async fn charge(
    State(payments): State<Payments>,
    claim: Option<Extension<Claim>>,
    Body(charge): Body<Charge>,
) -> Result<Response, Problem> {
    check_reference(&charge.order)?;
    if !(1..=LARGEST).contains(&charge.amount) {
        return Err(Problem::bad(format!(
            "`amount` lies between 1 and {LARGEST} cents"
        )));
    }
    let life = payments.site.life.clone();
    let claim = claim.map(|Extension(claim)| claim);
    life.outlive(async move { payments.work(&charge, claim).await })
        .await
        .unwrap_or_else(|| {
            Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the caller of this charge has stopped waiting",
            ))
        })
}

impl Payments {
    async fn work(&self, charge: &Charge, claim: Option<Claim>) -> Result<Response, Problem> {
        let Ok(_place) = self.station.enter().await else {
            return Err(Problem::unavailable("every worker is busy and the queue is full"));
        };
        // What the caller's deadline says is all that a server can know; without one it may work for a caller that has left.
        if Context::current()
            .and_then(|context| context.deadline())
            .is_some_and(|deadline| deadline <= clock::now())
        {
            self.site.counts.service(self.site.name).too_late.increment();
            return Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the caller of this charge has stopped waiting",
            ));
        }
        let settings = &self.site.settings;
        let time = self
            .site
            .dice
            .around(settings.payment_time.usual, settings.payment_time.spread);
        clock::sleep(settings.scale.span(time) + self.site.faults.payment_delay()).await;
        // The provider says no after the worker has asked: a charge that fails costs as much capacity as one that is made.
        if self.site.faults.payment_errs() {
            return Err(Problem::unavailable("the payment provider is unavailable"));
        }
        let finish = |number: i64| Finish::created(claim, &json!({"charge": number, "order": charge.order}));
        Ok(self
            .site
            .database
            .charge(&charge.order, charge.amount, finish)
            .await?)
    }
}
