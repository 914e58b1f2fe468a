//! What users of today's libraries run into, each with a test that carries its name.

use std::{collections::HashSet, time::Duration};

use http::{Method, Request};
use retryguard::{
    Policy, Refusal, Report,
    for_http::{
        HttpLayer,
        tags::{DEADLINE, RETRIED},
    },
    machines::breaker,
};
use tower::{Layer, ServiceExt};

use crate::{
    support::{
        only, policy,
        scripted::{Answer, Scripted, get, silence, status},
        time::sleep,
    },
    telemetry::{recorded, value},
};

/// How many attempts a request gets, and why there was no other.
async fn attempts(policy: &Policy, method: Method, answer: Answer) -> (usize, Refusal) {
    let service = Scripted::new([answer]);
    let guarded = HttpLayer::new(policy, "it").layer(service.clone());
    let mut request = get();
    *request.method_mut() = method;
    let response = guarded.oneshot(request).await.unwrap();
    let refusal = response.extensions().get::<Report>().unwrap().failed.unwrap().1;
    (service.attempts(), refusal)
}

#[tokio::test(start_paused = true)]
async fn every_method_retried_on_any_5xx() {
    let policy = only("maxRetries: 2");
    for method in [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
    ] {
        assert_eq!(
            attempts(&policy, method, status(500)).await,
            (3, Refusal::AttemptsUsed)
        );
    }
    for method in [Method::POST, Method::PATCH] {
        assert_eq!(
            attempts(&policy, method, status(500)).await,
            (1, Refusal::NotIdempotent)
        );
    }
    for permanent in [501, 505, 507, 511, 400, 401, 404, 409, 422] {
        assert_eq!(
            attempts(&policy, Method::GET, status(permanent)).await,
            (1, Refusal::NotRetryable)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_ignored() {
    let service = Scripted::new([status(503).with("retry-after", "3"), status(200)]);
    let guarded = HttpLayer::new(&only("maxRetries: 1"), "it").layer(service.clone());
    assert_eq!(guarded.oneshot(get()).await.unwrap().status(), 200);
    assert!(service.seen()[1].at >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_cannot_be_replayed() {
    let service = Scripted::new([status(500)]);
    let guarded = HttpLayer::new(&only("maxRetries: 2, replayLimit: 4"), "it").layer(service.clone());
    let long = Request::put("http://it/")
        .body(http_body_util::Full::from("12345"))
        .unwrap();
    let response = guarded.oneshot(long).await.unwrap();
    let refusal = response.extensions().get::<Report>().unwrap().failed.unwrap().1;
    assert_eq!((service.attempts(), refusal), (1, Refusal::NotReplayable));
}

#[tokio::test(start_paused = true)]
async fn deadlines_not_propagated() {
    let service = Scripted::new([status(500).after(300)]);
    let guarded = HttpLayer::new(&only("maxRetries: 9, deadline: 1s"), "it").layer(service.clone());
    let _ = guarded.oneshot(get()).await;
    let left: Vec<u64> = service
        .seen()
        .iter()
        .map(|seen| seen.header(DEADLINE).parse().unwrap())
        .collect();
    assert_eq!(left.len(), 3, "sent at 0, 400 and 900");
    assert!(
        left.windows(2).all(|pair| pair[1] < pair[0]) && left[2] <= 100,
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn shared_state_lost_because_a_framework_rebuilt_the_layer_for_each_request() {
    let service = Scripted::new([status(500)]);
    let policy = only("maxRetries: 0, breaker: { trip: consecutive, failures: 3 }");
    let layer = HttpLayer::new(&policy, "it");
    for _ in 0..10 {
        let _ = layer.clone().layer(service.clone()).oneshot(get()).await;
    }
    assert_eq!(service.attempts(), 3);
}

#[test]
fn retries_suppressed_invisibly() {
    let recorded = recorded(async {
        let service = Scripted::new([status(503)]);
        let policy = only("maxRetries: 1, budget: { percent: 10%, minRetryRate: { count: 0 } }");
        let guarded = HttpLayer::new(&policy, "it").layer(service.clone());
        for _ in 0..20 {
            let response = guarded.clone().oneshot(get()).await.unwrap();
            assert!(response.extensions().get::<Report>().unwrap().failed.is_some());
        }
        assert_eq!(service.attempts(), 22);
    });
    let reason = |reason| {
        value(
            &recorded,
            "retryguard_refusals_total",
            &[("target", "it"), ("reason", reason)],
        )
    };
    assert_eq!(
        (reason("budget"), reason("attempts-used")),
        (18.0, 2.0),
        "every failed call says why"
    );
}

#[tokio::test(start_paused = true)]
async fn configuration_fixed_at_start() {
    let service = Scripted::new([status(500)]);
    let layer = HttpLayer::new(&only("maxRetries: 0"), "it");
    let guarded = layer.layer(service.clone());
    guarded.clone().oneshot(get()).await.unwrap();
    layer.handle().replace(&only("maxRetries: 2"));
    guarded.oneshot(get()).await.unwrap();
    assert_eq!(service.attempts(), 1 + 3);
}

/// The whole chain over loopback stands in `layers`; here is the one header that it rests on.
#[tokio::test(start_paused = true)]
async fn layered_retries_multiplying() {
    let answer = status(500).with(RETRIED, "1");
    assert_eq!(
        attempts(&only("maxRetries: 2"), Method::GET, answer).await,
        (1, Refusal::RetriedBelow)
    );
}

#[tokio::test(start_paused = true)]
async fn every_clone_drawing_the_same_jitter() {
    let service = Scripted::new([status(500)]);
    let policy = only("maxRetries: 1, initialDelay: 10s, jitter: full, deadline: 60s");
    let guarded = HttpLayer::new(&policy, "it").layer(service.clone());
    let calls: Vec<_> = (0..20)
        .map(|_| tokio::spawn(guarded.clone().oneshot(get())))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let moments: HashSet<_> = service.seen()[20..]
        .iter()
        .map(|seen| seen.at.as_millis())
        .collect();
    assert!(moments.len() >= 18, "{moments:?}");
}

/// The empty policy, which is what a newcomer runs.
#[tokio::test(start_paused = true)]
async fn jitter_off_by_default_and_no_backoff_at_all() {
    let mut moments = HashSet::new();
    for _ in 0..20 {
        let service = Scripted::new([status(500)]);
        let budget = policy("defaults: { budget: { percent: 100% } }");
        let guarded = HttpLayer::new(&budget, "it").layer(service.clone());
        guarded.oneshot(get()).await.unwrap();
        moments.insert(service.seen()[1].at.as_millis());
    }
    assert!(moments.len() >= 10, "{moments:?}");
}

#[tokio::test(start_paused = true)]
async fn a_minimum_rate_that_is_a_cold_burst() {
    let service = Scripted::new([status(500)]);
    let layer = HttpLayer::new(&policy("defaults: { breaker: off }"), "it");
    let calls: Vec<_> = (0..100)
        .map(|_| tokio::spawn(layer.layer(service.clone()).oneshot(get())))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // A fifth of the calls, and the one retry that a fresh client has.
    assert!(
        service.attempts() <= 121,
        "{} attempts of a hundred cold calls",
        service.attempts()
    );
}

#[tokio::test(start_paused = true)]
async fn half_open_floods() {
    let service = Scripted::new([status(500)]);
    let policy = only("maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 1s, probes: 1 }");
    let layer = HttpLayer::new(&policy, "it");
    let guarded = layer.layer(service.clone());
    guarded.clone().oneshot(get()).await.unwrap();
    sleep(1_001).await;
    service.goes_on([status(500).after(50)]);
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(guarded.clone().oneshot(get())))
        .collect();
    for call in calls {
        let _ = call.await.unwrap();
    }
    assert_eq!(service.attempts(), 2, "one probe of fifty calls");
}

#[tokio::test(start_paused = true)]
async fn a_late_result_freeing_a_probe_slot() {
    let service = Scripted::new([status(200).after(1_300), status(500), silence()]);
    let policy = only("maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 1s, probes: 1 }");
    let layer = HttpLayer::new(&policy, "it");
    let guarded = layer.layer(service.clone());
    let late = tokio::spawn(guarded.clone().oneshot(get()));
    sleep(1).await;
    guarded.clone().oneshot(get()).await.unwrap();
    sleep(1_001).await;
    let probe = tokio::spawn(guarded.clone().oneshot(get()));
    sleep(1).await;
    assert_eq!(layer.handle().status().breaker, breaker::State::HalfOpen);
    assert_eq!(late.await.unwrap().unwrap().status(), 200);
    let refused = guarded.oneshot(get()).await.unwrap_err();
    assert_eq!(
        refused.refusal(),
        Some(Refusal::ProbesBusy),
        "the probe is still under way"
    );
    probe.abort();
}
