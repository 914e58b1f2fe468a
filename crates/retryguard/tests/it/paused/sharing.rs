//! One target, however many services are made for it.

use retryguard::{Refusal, for_http::HttpLayer, machines::breaker};
use tower::{Layer, ServiceExt};

use super::{assert_empty, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, status},
};

const BREAKER: &str = "maxRetries: 0, breaker: { trip: consecutive, failures: 3, openFor: 1s }";

#[tokio::test(start_paused = true)]
async fn a_layer_that_is_applied_for_each_request_has_one_breaker() {
    let service = Scripted::new([status(500)]);
    let layer = HttpLayer::new(&only(BREAKER), "it");
    for _ in 0..3 {
        layer.layer(service.clone()).oneshot(get()).await.unwrap();
    }
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    let error = layer.layer(service.clone()).oneshot(get()).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::BreakerOpen));
}

#[tokio::test(start_paused = true)]
async fn clones_of_the_layer_and_of_the_service_share_one_budget() {
    let budget = "budget: { percent: 10%, interval: 1h, minRetryRate: { count: 0 } }";
    let service = Scripted::new([status(503)]);
    let (layer, guarded) = guarded(&only(&format!("maxRetries: 1, {budget}")), &service);
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let clone = if number % 2 == 0 {
                guarded.clone()
            } else {
                layer.clone().layer(service.clone())
            };
            tokio::spawn(clone.oneshot(get()))
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(service.attempts(), 220);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn layers_of_two_policies_are_two_targets() {
    let service = Scripted::new([status(500)]);
    let (down, other) = (
        HttpLayer::new(&only(BREAKER), "it"),
        HttpLayer::new(&only(BREAKER), "it"),
    );
    for _ in 0..3 {
        down.layer(service.clone()).oneshot(get()).await.unwrap();
    }
    assert_eq!(down.handle().status().breaker, breaker::State::Open);
    assert_eq!(other.handle().status().breaker, breaker::State::Closed);
}
