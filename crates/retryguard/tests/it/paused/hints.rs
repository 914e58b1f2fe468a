//! What a target asks of one call is obeyed by all.

use retryguard::{
    Criticality, Error, Refusal, Report,
    for_http::tags::{DO_NOT_RETRY, RETRIED, RETRY_AFTER_MS, Tags},
};
use tower::ServiceExt;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, status},
    time::{assert_at, sleep},
};

#[tokio::test(start_paused = true)]
async fn one_retry_after_holds_back_every_call_to_the_target() {
    let service = Scripted::new([status(503).with("retry-after", "2"), status(200)]);
    let (layer, guarded) = guarded(
        &only("maxRetries: 0, gate: { scope: target, spread: 50% }"),
        &service,
    );
    assert_eq!(call(&guarded).await.unwrap(), 503);
    let mut told = Vec::new();
    for _ in 0..10 {
        let error = call(&guarded).await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Refused {
                    refusal: Refusal::RetryAfter,
                    ..
                }
            ),
            "{error:?}"
        );
        told.push(error.retry_after().unwrap().as_millis());
    }
    assert_eq!(service.attempts(), 1, "the others were not sent");
    assert!(told.iter().all(|wait| (1_990..=3_001).contains(wait)), "{told:?}");
    assert!(
        told.iter().any(|wait| *wait != told[0]),
        "all are sent back at once: {told:?}"
    );
    sleep(2_001).await;
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn the_call_that_met_the_retry_after_is_retried_when_it_is_over() {
    let service = Scripted::new([status(429).with(RETRY_AFTER_MS, "700"), status(200)]);
    let (_, guarded) = guarded(&only("maxRetries: 1, gate: { spread: 0% }"), &service);
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_at(service.seen()[1].at, 700);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_deadline_is_handed_to_the_caller_at_once() {
    let service = Scripted::new([status(503).with("retry-after", "20")]);
    let (_, guarded) = guarded(&only("maxRetries: 3, deadline: 1s"), &service);
    let response = guarded.oneshot(get()).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "20");
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!(report.failed.unwrap().1, Refusal::Deadline);
    let wait = report.retry_after.unwrap().as_secs();
    assert!((20..=30).contains(&wait), "spread over half of it: {wait}");
    assert_at(service.seen()[0].at, 0);
    assert_eq!(service.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_matters_more_than_the_call_that_was_sent_away_still_goes_through() {
    let service = Scripted::new([status(503).with("retry-after", "5"), status(200)]);
    let (_, guarded) = guarded(&only("maxRetries: 0, gate: { scope: target }"), &service);
    let of = |criticality| {
        let mut request = get();
        request
            .extensions_mut()
            .insert(Tags::new().criticality(criticality));
        guarded.clone().oneshot(request)
    };
    assert_eq!(of(Criticality::SheddablePlus).await.unwrap().status(), 503);
    assert_eq!(of(Criticality::Critical).await.unwrap().status(), 200);
    let refused = of(Criticality::Sheddable).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::RetryAfter));
}

#[tokio::test(start_paused = true)]
async fn a_do_not_retry_mark_is_obeyed_by_all_calls_for_a_while() {
    let service = Scripted::new([status(503).with(DO_NOT_RETRY, "overloaded"), status(500)]);
    let (_, guarded) = guarded(&only("maxRetries: 1, gate: { noRetryFor: 1s }"), &service);
    let refusal = async || {
        let response = guarded.clone().oneshot(get()).await.unwrap();
        response.extensions().get::<Report>().unwrap().failed.unwrap().1
    };
    assert_eq!(refusal().await, Refusal::TargetForbids);
    assert_eq!(
        refusal().await,
        Refusal::TargetForbids,
        "a plain failure of another call"
    );
    assert_eq!(service.attempts(), 2);
    sleep(1_001).await;
    assert_eq!(refusal().await, Refusal::AttemptsUsed);
    assert_eq!(service.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_retried_below_is_passed_on() {
    let service = Scripted::new([status(503).with(RETRIED, "1")]);
    let (_, once) = guarded(&only("maxRetries: 2"), &service);
    let response = once.oneshot(get()).await.unwrap();
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, report.retried_below), (1, 1));
    assert_eq!(report.failed.unwrap().1, Refusal::RetriedBelow);
    let (_, stubborn) = guarded(&only("maxRetries: 2, retryRetried: true"), &service);
    let response = stubborn.oneshot(get()).await.unwrap();
    assert_eq!(response.extensions().get::<Report>().unwrap().attempts, 3);
}
