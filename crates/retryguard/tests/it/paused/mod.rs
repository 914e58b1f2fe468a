//! The client layer under paused time, around a scripted service.

mod bulkhead;
mod dropping;
mod failing;
mod hedging;
mod hints;
mod hooks;
mod patterns;
mod periodic;
mod replacing;
mod retrying;
mod sharing;
mod unready;
mod waiting;

use retryguard::{
    Error, Policy,
    for_http::{HttpLayer, HttpService},
};
use tower::{Layer, ServiceExt};

use crate::support::scripted::{Scripted, get};

pub(super) type Guarded = HttpService<Scripted>;

pub(super) fn guarded(policy: &Policy, service: &Scripted) -> (HttpLayer, Guarded) {
    let layer = HttpLayer::new(policy, "it");
    let guarded = layer.layer(service.clone());
    (layer, guarded)
}

/// One call; its status, or why there is none.
pub(super) async fn call(service: &Guarded) -> Result<u16, Error<retryguard::BoxedError>> {
    let response = service.clone().oneshot(get()).await?;
    Ok(response.status().as_u16())
}

/// Nothing is held any more.
#[track_caller]
pub(super) fn assert_empty(layer: &HttpLayer) {
    let status = layer.handle().status();
    assert_eq!((status.in_flight, status.waiting), (0, 0), "{status:?}");
}
