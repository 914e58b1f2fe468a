//! Refusals: breaker, budget, guard, throttle, features; what errors say; fallbacks.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use retryguard::{
    Error, FallbackLayer, Refusal, Report, RetryGuardLayer,
    for_http::tags::Tags,
    machines::{breaker, guard},
    protocol::Plain,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, silence, status},
    time::{sleep, timed},
};

const BREAKER: &str =
    "maxRetries: 0, breaker: { trip: consecutive, failures: 3, openFor: 1s, probes: 2, closeAfter: 3 }";

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_and_says_how_long_to_stay_away() {
    let service = Scripted::new([status(500)]);
    let (layer, guarded) = guarded(&only(BREAKER), &service);
    for _ in 0..3 {
        assert_eq!(call(&guarded).await.unwrap(), 500);
    }
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    let (took, result) = timed(call(&guarded)).await;
    assert!(took.is_zero(), "at once");
    let error = result.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::BreakerOpen));
    let wait = error.retry_after().unwrap().as_millis();
    assert!((990..=1_501).contains(&wait), "{wait}");
    assert_eq!(service.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_for_slow_answers_that_succeed() {
    let service = Scripted::new([status(200).after(700)]);
    let breaker = "breaker: {trip: rate, minimumCalls: 4, slowCall: 500ms, slowCallRatio: 75%, openFor: 1s}";
    let (layer, guarded) = guarded(&only(breaker), &service);
    for _ in 0..3 {
        assert_eq!(call(&guarded).await.unwrap(), 200);
    }
    assert_eq!(layer.handle().status().breaker, breaker::State::Closed);
    assert_eq!(call(&guarded).await.unwrap(), 200, "a slow answer is an answer");
    assert_eq!(layer.handle().status().breaker, breaker::State::Open);
    let error = call(&guarded).await.unwrap_err();
    assert_eq!(
        (error.refusal(), service.attempts()),
        (Some(Refusal::BreakerOpen), 4)
    );
    sleep(2_000).await;
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_eq!(
        layer.handle().status().breaker,
        breaker::State::Open,
        "a slow probe does not close it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_half_open_breaker_lets_the_named_number_of_probes_through() {
    let service = Scripted::new([status(500)]);
    let (layer, guarded) = guarded(&only(BREAKER), &service);
    for _ in 0..3 {
        call(&guarded).await.unwrap();
    }
    sleep(1_001).await;
    service.goes_on([status(200).after(100)]);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let guarded = guarded.clone();
            tokio::spawn(async move { call(&guarded).await })
        })
        .collect();
    let mut answered = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert_eq!(error.refusal(), Some(Refusal::ProbesBusy)),
        }
    }
    assert_eq!((answered, service.attempts()), (2, 5), "two at once and no flood");
    assert_eq!(layer.handle().status().breaker, breaker::State::HalfOpen);
    call(&guarded).await.unwrap();
    assert_eq!(layer.handle().status().breaker, breaker::State::Closed);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn retries_stay_within_the_budget() {
    let service = Scripted::new([status(503)]);
    let budget = "budget: { percent: 20%, interval: 1h, minRetryRate: { count: 0 } }";
    let (layer, guarded) = guarded(&only(&format!("maxRetries: 2, {budget}")), &service);
    let mut refused = 0;
    for _ in 0..100 {
        let response = guarded.clone().oneshot(get()).await.unwrap();
        let report = response.extensions().get::<Report>().unwrap();
        refused += u32::from(report.failed.unwrap().1 == Refusal::Budget);
    }
    assert_eq!(service.attempts(), 120);
    assert!(refused >= 80, "{refused} calls were told that it was the budget");
    assert_eq!(layer.handle().status().budget_balance, Some(0));
}

#[tokio::test(start_paused = true)]
async fn the_guard_switches_retries_off_under_load_and_back_on_afterwards() {
    let service = Scripted::new([status(503)]);
    let guard = "guard: { interval: 100ms, samples: 2, minimumCalls: 5, coolDown: 500ms, stepFor: 100ms, rampSteps: 1 }";
    let policy = only(&format!("maxRetries: 1, initialDelay: 1ms, {guard}"));
    let (layer, guarded) = guarded(&policy, &service);
    for _ in 0..60 {
        call(&guarded).await.unwrap();
        sleep(10).await;
    }
    assert_eq!(layer.handle().status().guard, guard::State::Off);
    let before = service.attempts();
    for _ in 0..10 {
        let response = guarded.clone().oneshot(get()).await.unwrap();
        let report = response.extensions().get::<Report>().unwrap();
        assert_eq!(report.failed.unwrap().1, Refusal::Guard);
    }
    assert_eq!(service.attempts(), before + 10, "no retry while it is off");
    service.goes_on([status(200)]);
    for _ in 0..300 {
        call(&guarded).await.unwrap();
        sleep(10).await;
    }
    assert_eq!(layer.handle().status().guard, guard::State::On);
    service.goes_on([status(503), status(200)]);
    assert_eq!(call(&guarded).await.unwrap(), 200, "retried again");
}

#[tokio::test(start_paused = true)]
async fn the_guard_leaves_random_faults_to_the_retries() {
    let service = Scripted::new([status(500)]);
    let guard = "guard: { interval: 100ms, samples: 2, minimumCalls: 5 }";
    let (layer, guarded) = guarded(
        &only(&format!("maxRetries: 1, initialDelay: 1ms, {guard}")),
        &service,
    );
    for _ in 0..100 {
        call(&guarded).await.unwrap();
        sleep(10).await;
    }
    assert_eq!(layer.handle().status().guard, guard::State::On);
    assert_eq!(service.attempts(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_mostly_rejected_stops_asking() {
    let service = Scripted::new([status(503)]);
    let (_, guarded) = guarded(&only("maxRetries: 0, throttle: on"), &service);
    let mut throttled = 0;
    for _ in 0..300 {
        if let Err(error) = call(&guarded).await {
            assert_eq!(error.refusal(), Some(Refusal::Throttled));
            throttled += 1;
        }
    }
    assert!(throttled > 200, "{throttled} of 300 were not sent");
    assert_eq!(service.attempts(), 300 - throttled);
}

#[tokio::test(start_paused = true)]
async fn a_feature_that_is_switched_off_sends_nothing() {
    let service = Scripted::new([status(200)]);
    let (layer, guarded) = guarded(&only("featuresOff: [thumbnails]"), &service);
    let of = |feature: &str| {
        let mut request = get();
        request.extensions_mut().insert(Tags::new().feature(feature));
        guarded.clone().oneshot(request)
    };
    let error = of("thumbnails").await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Refused {
                refusal: Refusal::FeatureOff,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(service.attempts(), 0);
    of("search").await.unwrap();
    assert_eq!(service.seen()[0].header("retryguard-feature"), "search");
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn errors_say_which_part_refused_and_what_to_do() {
    let text = async |keys: &str, service: &Scripted, calls: usize| {
        let (_, guarded) = guarded(&only(keys), service);
        let mut last = String::new();
        for _ in 0..calls {
            if let Err(error) = call(&guarded).await {
                last = error.to_string();
            }
        }
        last
    };
    let failing = Scripted::new([status(500)]);
    let open = text(BREAKER, &failing, 4).await;
    assert_eq!(
        open,
        "not sent: breaker-open (look at the target; calls flow again after a successful probe)"
    );
    let late = text("maxRetries: 3, deadline: 50ms", &Scripted::new([silence()]), 1).await;
    assert_eq!(
        late,
        "no answer in time at attempt 1; not retried: deadline (raise the deadline or shorten timeouts \
         and delays so that attempts fit)"
    );
    let away = Scripted::new([status(503).with("retry-after", "9")]);
    let held = text("maxRetries: 0, gate: { scope: target }", &away, 2).await;
    assert_eq!(
        held,
        "not sent: retry-after (come back after the time that the target gave)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fallback_stands_in_after_all_retries() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let failing = service_fn(move |(): ()| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<u32, _>(std::io::Error::other("down")) }
    });
    let guarded = RetryGuardLayer::new(&only("maxRetries: 2"), "it", Plain::idempotent()).layer(failing);
    let fallback =
        FallbackLayer::new(|result: Result<u32, Error<_>>| result.or(Ok::<_, Error<std::io::Error>>(42)));
    let service = fallback.layer(guarded);
    assert_eq!(service.oneshot(()).await.unwrap(), 42);
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}
