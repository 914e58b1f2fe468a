//! The default policy: waiting for a target that is down, and measuring what retries add.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use retryguard::{
    Context, Criticality, Policy, Refusal,
    context::ContextLayer,
    for_http::{
        HttpLayer,
        tags::{CALL_DEADLINE, DEADLINE, GRPC_TIMEOUT},
    },
    machines::{breaker, guard},
};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{Guarded, assert_empty, call, guarded};
use crate::support::{
    only, policy,
    scripted::{Scripted, broken, get, status},
    time::{sleep, timed},
};

/// A target that refuses every connection, and a client that has found it down. The first attempts fail one by one, so
/// that there is hardly ever more than one of them under way.
async fn down(policy: &Policy) -> (HttpLayer, Guarded, Scripted) {
    let service = Scripted::new([status(200).after(10)]);
    let (layer, guarded) = guarded(policy, &service);
    for _ in 0..50 {
        assert_eq!(call(&guarded).await.unwrap(), 200);
    }
    service.goes_on([broken(std::io::ErrorKind::ConnectionRefused).after(1)]);
    let mut failing = Box::pin(async {
        loop {
            let _ = call(&guarded).await;
        }
    });
    while layer.handle().status().breaker != breaker::State::Open {
        let step = tokio::time::timeout(Duration::from_millis(1), &mut failing).await;
        assert!(step.is_err());
    }
    drop(failing);
    (layer, guarded, service)
}

fn spawn(guarded: &Guarded) -> tokio::task::JoinHandle<Result<u16, Option<Refusal>>> {
    let guarded = guarded.clone();
    tokio::spawn(async move { call(&guarded).await.map_err(|error| error.refusal()) })
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_while_the_target_is_down_and_succeeds_after_its_recovery() {
    let (layer, guarded, service) = down(&Policy::default()).await;
    let calls: Vec<_> = (0..20).map(|_| spawn(&guarded)).collect();
    let before = service.attempts();
    sleep(4_000).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "all of them wait");
    let probes = service.attempts() - before;
    // A quarter of the hundred attempts a second that were usual.
    assert!((2..=100).contains(&probes), "{probes} probes in four seconds");
    service.goes_on([status(200).after(10)]);
    let (took, results) = timed(async {
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        results
    })
    .await;
    assert_eq!(results, vec![Ok(200); 20], "after {took:?}");
    assert!(
        took < Duration::from_secs(3),
        "the recovery was noticed after {took:?}"
    );
    assert_eq!(layer.handle().status().breaker, breaker::State::Closed);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_its_deadline() {
    let (layer, guarded, _) = down(&policy("defaults: { deadline: 2s }")).await;
    let (took, result) = timed(call(&guarded)).await;
    let error = result.unwrap_err();
    assert!(
        matches!(
            error.refusal(),
            Some(Refusal::BulkheadTimeout | Refusal::Deadline)
        ),
        "{error:?}"
    );
    // It was the probe some times. It ends early where the back-off before its next turn reaches beyond the deadline.
    assert!(
        took > Duration::from_millis(100) && took <= Duration::from_millis(2_010),
        "{took:?}"
    );
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_says_so_fails_at_once_while_the_target_is_down() {
    let (layer, guarded, service) = down(&policy("defaults: { breaker: { whenDown: fail } }")).await;
    let before = service.attempts();
    let (took, result) = timed(call(&guarded)).await;
    assert_eq!(result.unwrap_err().refusal(), Some(Refusal::BreakerOpen));
    assert!(took.is_zero(), "{took:?}");
    assert_eq!(service.attempts(), before);
    assert_empty(&layer);
}

/// A call that waits holds the worker of the request that makes it, and those that have work need workers too.
#[tokio::test(start_paused = true)]
async fn of_the_calls_that_are_made_while_requests_are_served_only_few_wait() {
    let (layer, guarded, service) = down(&Policy::default()).await;
    let context = || Context::new(None, Criticality::Critical);
    let within: Vec<_> = (0..100)
        .map(|_| {
            let guarded = guarded.clone();
            tokio::spawn(
                context().scope(async move { call(&guarded).await.map_err(|error| error.refusal()) }),
            )
        })
        .collect();
    sleep(20).await;
    let refused = within.iter().filter(|call| call.is_finished()).count();
    assert!((80..100).contains(&refused), "{refused} of 100 were refused");
    let outside: Vec<_> = (0..100).map(|_| spawn(&guarded)).collect();
    sleep(20).await;
    assert!(outside.iter().all(|call| !call.is_finished()));
    service.goes_on([status(200).after(1)]);
    let mut answered = 0;
    for call in within {
        match call.await.unwrap() {
            Ok(200) => answered += 1,
            other => assert_eq!(other, Err(Some(Refusal::BreakerOpen))),
        }
    }
    assert_eq!(answered, 100 - refused, "those that waited are answered");
    for call in outside {
        assert_eq!(call.await.unwrap(), Ok(200));
    }
    assert_empty(&layer);
}

/// A buffer makes its calls in a task of its own: they are made for the request that they carry.
#[tokio::test(start_paused = true)]
async fn a_call_whose_request_carries_a_context_is_made_while_that_is_served() {
    let (layer, _, service) = down(&Policy::default()).await;
    let stack = ServiceBuilder::new()
        .layer(ContextLayer)
        .buffer(200)
        .layer(layer.clone())
        .service(service.clone());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let mut stack = stack.clone();
            let call = async move { stack.ready().await.unwrap().call(get()).await.is_ok() };
            tokio::spawn(Context::new(None, Criticality::Critical).scope(call))
        })
        .collect();
    sleep(20).await;
    let refused = calls.iter().filter(|call| call.is_finished()).count();
    assert!((80..100).contains(&refused), "{refused} of 100 were refused");
}

/// Without the wall clock nothing is measured and the guard stays in doubt.
#[tokio::test(start_paused = true)]
async fn the_gain_of_retries_is_measured_by_the_wall_clock() {
    let service = Scripted::new([status(200)]);
    let (layer, guarded) = guarded(&Policy::default(), &service);
    let gain = || layer.handle().status().gain.unwrap();
    let unsure = gain();
    assert_eq!(
        layer.handle().status().guard,
        guard::State::Ramping { step: 0 },
        "nothing is known yet"
    );
    // Every fourth attempt fails, whatever the load.
    let mut succeeded = [0; 30];
    for count in &mut succeeded {
        let calls: Vec<_> = (0..100)
            .map(|number| {
                let guarded = guarded.clone();
                tokio::spawn(async move {
                    sleep(number * 20).await;
                    call(&guarded).await
                })
            })
            .collect();
        let codes = [500, 200, 200, 200].into_iter().cycle().take(200);
        service.goes_on(codes.map(|code| status(code).after(5)));
        for call in calls {
            *count += u32::from(call.await.unwrap().unwrap() == 200);
        }
    }
    let late: u32 = succeeded[20..].iter().sum();
    assert!(late >= 995, "not retried although it helps: {succeeded:?}");
    let status = layer.handle().status();
    assert_eq!(status.guard, guard::State::On, "{status:?}");
    let gain = gain();
    assert!(
        gain.value > 0.5 && gain.error < unsure.error,
        "{unsure:?} → {gain:?}"
    );
    let (layer, _) = super::guarded(&only("guard: { mode: hysteresis }"), &service);
    assert_eq!(layer.handle().status().gain, None);
}

/// A server that is told the end of the whole call goes on with an attempt that was given up long before.
#[tokio::test(start_paused = true)]
async fn a_server_is_told_when_its_attempt_is_given_up() {
    let service = Scripted::new([status(500)]);
    let (_, guarded) = guarded(&only("maxRetries: 1, attemptTimeout: 2s, deadline: 5s"), &service);
    let mut request: Request<Full<Bytes>> = get();
    let grpc = http::HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    guarded.clone().oneshot(request).await.unwrap();
    let seen = service.seen();
    assert_eq!(seen[0].header(DEADLINE), "2000");
    assert_eq!(seen[0].header(GRPC_TIMEOUT), "2000m");
    assert_eq!(seen[0].header(CALL_DEADLINE), "5000");
    // An attempt that ends with its call has one end and not two.
    let (_, short) = super::guarded(&only("maxRetries: 0, attemptTimeout: 2s, deadline: 1s"), &service);
    short.oneshot(get()).await.unwrap();
    let seen = service.seen();
    let last = seen.last().unwrap();
    assert_eq!((last.header(DEADLINE), last.header(CALL_DEADLINE)), ("1000", ""));
}
