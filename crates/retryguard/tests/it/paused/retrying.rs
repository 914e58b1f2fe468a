//! Attempts, waits, timeouts and deadlines.

use std::collections::HashSet;

use retryguard::{
    Error, Refusal, Report,
    for_http::tags::{ATTEMPT, ATTEMPT_KIND, DEADLINE, Tags},
};
use tower::ServiceExt;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, broken, get, silence, status},
    time::{assert_at, timed},
};

#[tokio::test(start_paused = true)]
async fn retries_wait_out_their_back_off_and_carry_their_number() {
    let service = Scripted::new([status(503), status(500), status(200)]);
    let (layer, guarded) = guarded(&only("maxRetries: 2"), &service);
    let response = guarded.oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 200);
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!((report.attempts, report.retries, report.failed), (3, 2, None));
    let seen = service.seen();
    assert_at(seen[0].at, 0);
    assert_at(seen[1].at, 100);
    assert_at(seen[2].at, 300);
    let told: Vec<_> = seen
        .iter()
        .map(|seen| (seen.header(ATTEMPT), seen.header(ATTEMPT_KIND)))
        .collect();
    // A server takes an attempt without a number for the first.
    assert_eq!(told, [("", ""), ("2", "retry"), ("3", "retry")]);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn the_last_failed_response_is_handed_on_with_why_it_was_not_retried() {
    let service = Scripted::new([status(503)]);
    let (_, guarded) = guarded(&only("maxRetries: 2"), &service);
    let response = guarded.oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 503);
    let report = response.extensions().get::<Report>().unwrap();
    assert_eq!(report.attempts, 3);
    assert_eq!(report.failed.unwrap().1, Refusal::AttemptsUsed);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_dropped_and_retried() {
    let service = Scripted::new([silence(), status(200)]);
    let (layer, guarded) = guarded(&only("maxRetries: 2, attemptTimeout: 50ms"), &service);
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_eq!((service.attempts(), service.dropped()), (2, 1));
    assert_at(service.seen()[1].at, 150);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_silent_target_costs_the_caller_its_deadline_and_no_more() {
    let service = Scripted::new([silence()]);
    let (layer, guarded) = guarded(&only("maxRetries: 5, deadline: 250ms"), &service);
    let (took, result) = timed(call(&guarded)).await;
    assert_at(took, 250);
    let error = result.unwrap_err();
    assert!(matches!(error, Error::TimedOut { attempts: 1, .. }), "{error:?}");
    assert_eq!(error.refusal(), Some(Refusal::Deadline));
    assert_eq!((service.attempts(), service.dropped()), (1, 1));
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_deadline_bounds_the_policys_and_is_told_to_the_target() {
    let service = Scripted::new([status(503).after(40)]);
    let (_, guarded) = guarded(&only("maxRetries: 5, deadline: 10s"), &service);
    let mut request = get();
    request
        .extensions_mut()
        .insert(Tags::new().deadline(std::time::Duration::from_millis(400)));
    let (took, result) = timed(guarded.oneshot(request)).await;
    assert_at(took, 400);
    let error = result.unwrap_err();
    assert_eq!((error.attempts(), error.refusal()), (3, Some(Refusal::Deadline)));
    let left: Vec<u64> = service
        .seen()
        .iter()
        .map(|seen| seen.header(DEADLINE).parse().unwrap())
        .collect();
    // Sent at 0, at 140 and at 380.
    for (left, expected) in left.iter().zip([400_u64, 260, 20]) {
        assert!(expected.abs_diff(*left) <= 3, "{left} for {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_deadline() {
    let policy = only("maxRetries: 20, initialDelay: 40ms, growth: constant, jitter: full, deadline: 300ms");
    let service = Scripted::new([status(503).after(7)]);
    let (layer, guarded) = guarded(&policy, &service);
    let mut most = 0;
    for _ in 0..100 {
        let before = service.attempts();
        let began = service.seen().last().map(|seen| seen.at);
        let (took, result) = timed(call(&guarded)).await;
        assert!(took.as_millis() <= 301, "{took:?}");
        // The last attempt was answered, or cut short by the deadline.
        assert!(
            matches!(result, Ok(503) | Err(Error::TimedOut { .. })),
            "{result:?}"
        );
        let seen = service.seen();
        let first = seen[before].at;
        assert!(began < Some(first));
        assert!(
            seen[before..]
                .iter()
                .all(|seen| (seen.at - first).as_millis() < 300)
        );
        most = most.max(seen.len() - before);
    }
    assert!(
        most > 5,
        "the deadline and not the number of attempts ended these calls: {most}"
    );
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_retried_and_its_error_kept() {
    let kind = std::io::ErrorKind::ConnectionReset;
    let service = Scripted::new([broken(kind)]);
    let (_, guarded) = guarded(&only("maxRetries: 1"), &service);
    let error = call(&guarded).await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.refusal()),
        (2, Some(Refusal::AttemptsUsed))
    );
    assert_eq!(
        error
            .into_inner()
            .unwrap()
            .downcast_ref::<std::io::Error>()
            .unwrap()
            .kind(),
        kind
    );
}

#[tokio::test(start_paused = true)]
async fn every_clone_draws_its_own_jitter() {
    let policy = only("maxRetries: 1, initialDelay: 1s, jitter: full");
    let service = Scripted::new([status(503)]);
    let (_, guarded) = guarded(&policy, &service);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let clone = guarded.clone();
            tokio::spawn(async move { call(&clone).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let seen = service.seen();
    let retries: HashSet<_> = seen[50..].iter().map(|seen| seen.at.as_millis()).collect();
    assert!(
        retries.len() > 35,
        "50 clones came back at {} moments",
        retries.len()
    );
}

/// Each thread's layer has its own generator, which is not seeded alike.
#[test]
fn every_thread_draws_its_own_jitter() {
    let one = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let service = Scripted::new([status(503)]);
            let policy =
                only("maxRetries: 1, initialDelay: 60s, maxDelay: 60s, deadline: 100s, jitter: full");
            let (_, guarded) = guarded(&policy, &service);
            call(&guarded).await.unwrap();
            service.seen()[1].at.as_millis()
        })
    };
    let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(one)).collect();
    let waits: HashSet<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(waits.len() >= 6, "{waits:?}");
}
