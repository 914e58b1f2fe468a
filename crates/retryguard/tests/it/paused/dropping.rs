//! A call that is dropped, at whatever point, leaks nothing.

use std::time::Duration;

use retryguard::Policy;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Answer, Scripted, silence, status},
    time::sleep,
};

/// Drops a call after every millisecond of its life, beside another that competes for the same places.
async fn drop_at_every_moment(policy: &Policy, script: &[Answer], life: u64) {
    for cut in 0..=life {
        let service = Scripted::new(script.iter().cloned());
        let (layer, guarded) = guarded(policy, &service);
        let rival = tokio::spawn({
            let guarded = guarded.clone();
            async move {
                sleep(5).await;
                call(&guarded).await.ok()
            }
        });
        let cut_short = tokio::time::timeout(Duration::from_millis(cut), call(&guarded)).await;
        drop(cut_short);
        rival.await.unwrap();
        assert_empty(&layer);
        let before = service.attempts();
        service.goes_on([status(200)]);
        assert_eq!(
            call(&guarded).await.unwrap(),
            200,
            "dropped at {cut} ms, the target still works"
        );
        assert_eq!(service.attempts(), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn while_it_runs_backs_off_and_runs_again() {
    let policy = only("maxRetries: 2, initialDelay: 10ms, deadline: 200ms");
    drop_at_every_moment(&policy, &[status(503).after(3)], 45).await;
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_a_place() {
    let policy = only("maxRetries: 1, initialDelay: 10ms, bulkhead: { limit: 1, wait: 20ms, waiting: 5 }");
    drop_at_every_moment(&policy, &[status(503).after(8)], 60).await;
}

#[tokio::test(start_paused = true)]
async fn while_hedges_run_beside_it() {
    let policy =
        only("maxRetries: 1, initialDelay: 5ms, attemptTimeout: 30ms, hedge: { after: 4ms, most: 2 }");
    let script = [silence(), status(500).after(9), silence(), status(503).after(2)];
    drop_at_every_moment(&policy, &script, 90).await;
}

#[tokio::test(start_paused = true)]
async fn while_it_probes_a_half_open_breaker() {
    let policy =
        only("maxRetries: 0, breaker: { trip: consecutive, failures: 1, openFor: 10ms, closeAfter: 1 }");
    for cut in 0..=30 {
        let service = Scripted::new([status(500), silence()]);
        let (layer, guarded) = guarded(&policy, &service);
        call(&guarded).await.unwrap();
        sleep(11).await;
        let probe = tokio::time::timeout(Duration::from_millis(cut), call(&guarded)).await;
        assert!(probe.is_err(), "it was dropped");
        assert_empty(&layer);
        service.goes_on([status(200)]);
        assert_eq!(call(&guarded).await.unwrap(), 200, "its probe was given back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_was_paid_for_and_not_sent_is_refunded() {
    let budget = "budget: { percent: 100%, interval: 1h, minRetryRate: { count: 0 } }";
    let policy = only(&format!(
        "maxRetries: 1, initialDelay: 1s, maxDelay: 1s, {budget}"
    ));
    let service = Scripted::new([status(503)]);
    let (layer, guarded) = guarded(&policy, &service);
    for calls in 1..=5 {
        let dropped = tokio::time::timeout(Duration::from_millis(500), call(&guarded)).await;
        assert!(dropped.is_err(), "dropped while it backed off");
        assert_eq!(layer.handle().status().budget_balance, Some(calls));
    }
}
