//! The limit on concurrency and the queue before it.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
};

use retryguard::{Error, Refusal};
use tower::ServiceExt;

use super::{assert_empty, call, guarded};
use crate::support::{
    only,
    scripted::{Scripted, get, silence, status},
    time::{assert_at, sleep, timed},
};

#[tokio::test(start_paused = true)]
async fn the_queue_is_first_come_first_served() {
    let service = Scripted::new([status(200).after(100)]);
    let (layer, guarded) = guarded(&only("bulkhead: { limit: 2, wait: 10s, waiting: 20 }"), &service);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for number in 0..10 {
        let (guarded, ended) = (guarded.clone(), ended.clone());
        calls.push(tokio::spawn(async move {
            call(&guarded).await.unwrap();
            ended.lock().unwrap().push(number);
        }));
        sleep(1).await;
        let status = layer.handle().status();
        assert!(status.in_flight <= 2, "{status:?}");
    }
    assert_eq!(layer.handle().status().waiting, 8);
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(*ended.lock().unwrap(), (0..10).collect::<Vec<_>>());
    // Two at a time, a hundred milliseconds each.
    assert_at(service.seen()[9].at, 401);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_bounded_and_so_is_the_queue() {
    let service = Scripted::new([silence()]);
    let (layer, guarded) = guarded(&only("bulkhead: { limit: 1, wait: 50ms, waiting: 1 }"), &service);
    let holder = tokio::spawn({
        let guarded = guarded.clone();
        async move { call(&guarded).await }
    });
    sleep(1).await;
    let waiter = tokio::spawn({
        let guarded = guarded.clone();
        async move { timed(call(&guarded)).await }
    });
    sleep(1).await;
    let full = call(&guarded).await.unwrap_err();
    assert_eq!(full.refusal(), Some(Refusal::BulkheadFull));
    let (took, result) = waiter.await.unwrap();
    assert_at(took, 50);
    let late = result.unwrap_err();
    assert!(
        matches!(
            late,
            Error::Refused {
                refusal: Refusal::BulkheadTimeout,
                ..
            }
        ),
        "{late:?}"
    );
    assert_eq!(service.attempts(), 1);
    holder.abort();
    let _ = holder.await;
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_leaves_no_hole_in_the_queue() {
    let service = Scripted::new([status(200).after(100)]);
    let (layer, guarded) = guarded(&only("bulkhead: { limit: 1, wait: 10s, waiting: 9 }"), &service);
    let begin = || {
        let guarded = guarded.clone();
        tokio::spawn(async move { call(&guarded).await })
    };
    let (first, second, third) = (begin(), begin(), begin());
    sleep(10).await;
    assert_eq!(layer.handle().status().waiting, 2);
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    first.await.unwrap().unwrap();
    third.await.unwrap().unwrap();
    assert_eq!(service.attempts(), 2);
    assert_at(service.seen()[1].at, 100);
    assert_empty(&layer);
}

/// A place that was given to a call which never looked again would be lost for good.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_after_it_was_given_its_place_passes_it_on() {
    let service = Scripted::new([silence(), status(200)]);
    let (layer, guarded) = guarded(&only("bulkhead: { limit: 1, wait: 10s, waiting: 9 }"), &service);
    let mut context = Context::from_waker(Waker::noop());
    let mut holder = Box::pin(guarded.clone().oneshot(get()));
    let mut granted = Box::pin(guarded.clone().oneshot(get()));
    let mut next = pin!(guarded.clone().oneshot(get()));
    assert!(holder.as_mut().poll(&mut context).is_pending());
    assert!(granted.as_mut().poll(&mut context).is_pending());
    assert!(next.as_mut().poll(&mut context).is_pending());
    drop(holder);
    let status = layer.handle().status();
    assert_eq!(
        (status.in_flight, status.waiting),
        (1, 1),
        "the place went to the first in the queue"
    );
    drop(granted);
    assert_eq!(next.await.unwrap().status(), 200);
    assert_empty(&layer);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_a_place_like_every_other_call() {
    let service = Scripted::new([status(503), status(200).after(200), status(200)]);
    let (layer, guarded) = guarded(
        &only("maxRetries: 1, bulkhead: { limit: 1, wait: 1s, waiting: 9 }"),
        &service,
    );
    let first = tokio::spawn({
        let guarded = guarded.clone();
        async move { call(&guarded).await }
    });
    sleep(50).await;
    assert_eq!(call(&guarded).await.unwrap(), 200);
    assert_eq!(first.await.unwrap().unwrap(), 200);
    assert_at(service.seen()[2].at, 250);
    assert_empty(&layer);
}
