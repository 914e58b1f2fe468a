//! What a program can choose for itself: observers, delays, readings, and rules of one request.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::StatusCode;
use retryguard::{
    BoxError, BoxErrorsLayer, CallEvent, Error, Failure, FailureKind, Outcome, Policy, Refusal,
    RetryGuardLayer,
    for_http::{Http, HttpLayer, tags::Tags},
    machines::rate,
    patterns::RateLimitLayer,
    protocol::Plain,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, broken, get, silence, status},
    time::{assert_at, sleep, timed},
};

fn events_of(layer: &HttpLayer) -> Arc<Mutex<Vec<CallEvent>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let first = layer
        .handle()
        .observe_calls(move |target: &str, event: &CallEvent| {
            assert_eq!(target, "it");
            log.lock().unwrap().push(*event);
        });
    assert!(first);
    assert!(
        !layer.handle().observe_calls(|_: &str, _: &CallEvent| {}),
        "one observer"
    );
    seen
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_every_attempt_retry_and_refusal() {
    let service = Scripted::new([status(503).after(10), silence(), status(200).after(10)]);
    let (layer, guarded) = guarded(
        &only("maxRetries: 2, attemptTimeout: 50ms, multiplier: 1"),
        &service,
    );
    let seen = events_of(&layer);
    assert_eq!(call(&guarded).await.unwrap(), 200);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let kinds: Vec<_> = seen
        .iter()
        .map(|event| match event {
            CallEvent::Sent { attempt, kind, .. } => (*attempt, kind.as_str()),
            CallEvent::Ended { attempt, failure, .. } => {
                (*attempt, failure.map_or("well", FailureKind::as_str))
            }
            CallEvent::Finished {
                attempts, refusal, ..
            } => {
                assert_eq!(*refusal, None);
                (*attempts, "finished")
            }
            _ => (0, "?"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (1, "first"),
            (1, "overload"),
            (2, "retry"),
            (2, "timeout"),
            (3, "retry"),
            (3, "well"),
            (3, "finished")
        ]
    );
    let CallEvent::Ended { at, .. } = seen[3] else {
        panic!("{seen:?}")
    };
    // Failed at 10, sent again at 110, given up at 160.
    assert_at(at, 160);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_what_is_never_sent_and_of_what_is_dropped() {
    let service = Scripted::new([status(500), silence()]);
    let (layer, guarded) = guarded(
        &only("maxRetries: 0, breaker: { trip: consecutive, failures: 1 }"),
        &service,
    );
    let seen = events_of(&layer);
    call(&guarded).await.unwrap();
    call(&guarded).await.unwrap_err();
    let last = *seen.lock().unwrap().last().unwrap();
    assert!(
        matches!(
            last,
            CallEvent::Finished {
                attempts: 0,
                refusal: Some(Refusal::BreakerOpen),
                ..
            }
        ),
        "{last:?}"
    );
    let (layer, guarded) = super::guarded(&only("maxRetries: 0"), &service);
    let seen = events_of(&layer);
    let _ = tokio::time::timeout(millis(5), call(&guarded)).await.unwrap_err();
    let last = *seen.lock().unwrap().last().unwrap();
    assert_eq!(last, CallEvent::Abandoned { attempts: 1 });
}

#[tokio::test(start_paused = true)]
async fn an_error_has_the_history_of_its_attempts() {
    let service = Scripted::new([
        broken(std::io::ErrorKind::ConnectionReset),
        status(503),
        silence(),
    ]);
    let (_, guarded) = guarded(
        &only("maxRetries: 2, attemptTimeout: 50ms, multiplier: 1"),
        &service,
    );
    let error = call(&guarded).await.unwrap_err();
    let history: Vec<_> = error
        .history()
        .iter()
        .map(|it| (it.attempt, it.failure, u64::try_from(it.at.as_millis()).unwrap()))
        .collect();
    assert_eq!(history.len(), 3, "{error:?}");
    assert_eq!((history[1].0, history[1].1), (2, FailureKind::Overload));
    assert_eq!((history[2].0, history[2].1), (3, FailureKind::Timeout));
    assert!((250..=252).contains(&history[2].2), "{history:?}");
    assert!(matches!(error, Error::TimedOut { attempts: 3, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_function_can_choose_the_delays() {
    let service = Scripted::new([status(503), status(503), status(200)]);
    let (layer, guarded) = guarded(&only("maxRetries: 2"), &service);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    layer.handle().back_off_by(move |retry, policy| {
        log.lock().unwrap().push((retry, policy));
        policy / 10 + millis(u64::from(retry))
    });
    let (took, result) = timed(call(&guarded)).await;
    assert_eq!(result.unwrap(), 200);
    assert_eq!(*asked.lock().unwrap(), [(1, millis(100)), (2, millis(200))]);
    // 11 ms and 22 ms.
    assert_at(took, 33);
}

#[tokio::test(start_paused = true)]
async fn one_request_can_have_rules_of_its_own() {
    let policy = only("maxRetries: 1, attemptTimeout: 50ms, multiplier: 1");
    let send = |service: Scripted, tags: Tags| {
        let (_, guarded) = guarded(&policy, &service);
        async move {
            let mut request = get();
            request.extensions_mut().insert(tags);
            let status = guarded
                .oneshot(request)
                .await
                .map(|response| response.status().as_u16());
            (status, service.attempts())
        }
    };
    for (retries, attempts) in [(0, 1), (1, 2), (4, 5)] {
        let tags = Tags::new().max_retries(retries);
        let (answer, sent) = send(Scripted::new([status(503)]), tags).await;
        assert_eq!((answer.unwrap(), sent), (503, attempts));
    }
    let slow = || Scripted::new([status(200).after(120)]);
    let patient = Tags::new().attempt_timeout(millis(200));
    assert_eq!(send(slow(), patient).await.0.unwrap(), 200);
    assert!(send(slow(), Tags::default()).await.0.is_err());
    // A 404 is retried under the rules of a service whose policy says so.
    let other = only("retryOn: [404]").service("it").classifier.clone();
    let tags = Tags::new().classifier(other);
    let missing = || Scripted::new([status(404), status(200)]);
    assert_eq!(send(missing(), tags).await.0.unwrap(), 200);
    assert_eq!(send(missing(), Tags::default()).await.0.unwrap(), 404);
}

#[tokio::test(start_paused = true)]
async fn a_function_can_have_rules_of_its_own() {
    let target = retryguard::target(&only("maxRetries: 5, deadline: 1h"), "it");
    let no = || async { Err::<(), _>(std::io::Error::other("no")) };
    let error = retryguard::call(&target, no).max_retries(1).await.unwrap_err();
    assert_eq!(error.attempts(), 2);
    let silent = std::future::pending::<Result<(), std::io::Error>>;
    let call = retryguard::call(&target, silent)
        .max_retries(0)
        .attempt_timeout(millis(30));
    let (took, error) = timed(call.run()).await;
    assert!(matches!(error.unwrap_err(), Error::TimedOut { attempts: 1, .. }));
    assert_at(took, 30);
}

#[tokio::test(start_paused = true)]
async fn responses_can_be_read_by_a_predicate() {
    let protocol = Http::new().responses_read_by(|status, headers| {
        let stale = status == StatusCode::OK && headers.contains_key("stale");
        stale.then(|| Outcome::Failure(Failure::new(FailureKind::Fault)))
    });
    let service = Scripted::new([status(200).with("stale", "1"), status(503), status(200)]);
    let layer = HttpLayer::with(only("maxRetries: 2").service("it"), protocol);
    let response = layer.layer(service.clone()).oneshot(get()).await.unwrap();
    assert!(!response.headers().contains_key("stale"));
    assert_eq!(
        service.attempts(),
        3,
        "the policy's rules hold where the predicate says nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_can_be_written_in_code() {
    let policy = Policy::builder()
        .defaults(|keys| keys.off("budget").off("guard").set("jitter", "none"))
        .service("it", |keys| keys.max_retries(1).initial_delay(millis(40)))
        .build()
        .unwrap();
    assert!(policy.require("it").is_ok() && policy.require("its").is_err());
    let service = Scripted::new([status(503), status(200)]);
    let (_, guarded) = guarded(&policy, &service);
    let (took, result) = timed(call(&guarded)).await;
    assert_eq!(result.unwrap(), 200);
    assert_at(took, 40);
}

fn echo() -> impl Service<u32, Response = u32, Error = std::io::Error, Future: Send> + Clone {
    service_fn(|n: u32| async move { Ok(n) })
}

#[tokio::test(start_paused = true)]
async fn a_rate_lets_a_burst_through_and_then_its_rate() {
    let layer = RateLimitLayer::new(rate::Settings::new(10, Duration::from_secs(1)).burst(2));
    // All services of a layer share one rate.
    let (one, other) = (layer.layer(echo()), layer.layer(echo()));
    assert!(one.clone().oneshot(1).await.is_ok());
    assert!(other.clone().oneshot(2).await.is_ok());
    let refused = one.clone().oneshot(3).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::RateLimited));
    assert_eq!(refused.retry_after(), Some(millis(100)));
    sleep(100).await;
    assert_eq!(other.oneshot(4).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_can_wait_for_its_turn_and_gives_it_back_when_it_is_dropped() {
    let layer = RateLimitLayer::new(rate::Settings::new(10, Duration::from_secs(1)).wait(millis(150)));
    let service = layer.layer(echo());
    assert!(service.clone().oneshot(1).await.is_ok());
    let waits = service.clone().oneshot(2);
    let dropped = tokio::time::timeout(millis(10), waits).await;
    assert!(dropped.is_err(), "it waits for 100 ms");
    let (took, answer) = timed(service.clone().oneshot(3)).await;
    assert_eq!(answer.unwrap(), 3);
    assert_at(took, 90);
}

#[tokio::test]
async fn errors_of_boxed_services_go_into_a_box_by_the_question_mark() {
    async fn ask() -> Result<(), BoxError> {
        let service = ServiceBuilder::new()
            .layer(RetryGuardLayer::new(
                &only("maxRetries: 0"),
                "it",
                Plain::idempotent(),
            ))
            .layer(BoxErrorsLayer)
            .service(service_fn(|(): ()| async { Err::<(), BoxError>("no".into()) }));
        service.oneshot(()).await?;
        Ok(())
    }
    let error = ask().await.unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "no");
}
