//! A policy that changes while calls are under way.

use retryguard::{Refusal, Report, machines::breaker};
use tower::ServiceExt;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, status},
    time::{assert_at, sleep},
};

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_new_policy_does_not_allow_is_not_sent() {
    let service = Scripted::new([status(503)]);
    let (layer, guarded) = guarded(&only("maxRetries: 5"), &service);
    let call = tokio::spawn(guarded.oneshot(get()));
    sleep(50).await;
    layer.handle().replace(&only("maxRetries: 0"));
    let response = call.await.unwrap().unwrap();
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!(
        (report.attempts, report.failed.unwrap().1),
        (1, Refusal::AttemptsUsed)
    );
    assert_eq!(service.attempts(), 1);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_go_on_at_once_when_the_new_policy_has_room() {
    let service = Scripted::new([status(200).after(1_000)]);
    let (layer, guarded) = guarded(&only("bulkhead: { limit: 1, wait: 1m, waiting: 9 }"), &service);
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let guarded = guarded.clone();
            tokio::spawn(async move { call(&guarded).await })
        })
        .collect();
    sleep(100).await;
    assert_eq!(layer.handle().status().waiting, 3);
    layer
        .handle()
        .replace(&only("bulkhead: { limit: 4, wait: 1m, waiting: 9 }"));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    for seen in &service.seen()[1..] {
        assert_at(seen.at, 100);
    }
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_was_made_before_the_change_reads_requests_by_the_new_policy() {
    let service = Scripted::new([status(200)]);
    let (layer, guarded) = guarded(&only(""), &service);
    let mut request = get();
    let tags = retryguard::for_http::tags::Tags::new().feature("thumbnails");
    request.extensions_mut().insert(tags);
    guarded.clone().oneshot(request.clone()).await.unwrap();
    layer.handle().replace(&only("featuresOff: [thumbnails]"));
    let error = guarded.oneshot(request).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::FeatureOff));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_stays_open_through_a_change() {
    let policy = |failures| {
        only(&format!(
            "maxRetries: 0, breaker: {{ trip: consecutive, failures: {failures}, openFor: 10s }}"
        ))
    };
    let service = Scripted::new([status(500)]);
    let (layer, guarded) = guarded(&policy(2), &service);
    call(&guarded).await.unwrap();
    call(&guarded).await.unwrap();
    layer.handle().replace(&policy(7));
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    assert_eq!(
        call(&guarded).await.unwrap_err().refusal(),
        Some(Refusal::BreakerOpen)
    );
}

#[tokio::test(start_paused = true)]
async fn parts_that_come_and_go_under_way_lose_no_place() {
    let service = Scripted::new([status(503).after(7)]);
    let (layer, guarded) = guarded(&only("maxRetries: 2, initialDelay: 5ms"), &service);
    let policies = [
        only("maxRetries: 2, initialDelay: 5ms, bulkhead: { limit: 2, wait: 20ms, waiting: 3 }, budget: on"),
        only("maxRetries: 3, initialDelay: 5ms, breaker: { trip: consecutive, failures: 9, openFor: 15ms }"),
        only("maxRetries: 1, initialDelay: 5ms, throttle: on, guard: on, hedge: { after: 3ms, most: 2 }"),
    ];
    let mut calls = Vec::new();
    for round in 0..60 {
        for _ in 0..3 {
            let guarded = guarded.clone();
            calls.push(tokio::spawn(async move { call(&guarded).await.is_ok() }));
        }
        sleep(3).await;
        layer.handle().replace(&policies[round % policies.len()]);
    }
    for call in calls {
        call.await.unwrap();
    }
    assert_empty(&layer);
}
