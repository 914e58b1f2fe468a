//! Services that are not always ready, as tower allows.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use retryguard::{Error, RetryGuardLayer, protocol::Plain};
use tokio::time::Sleep;
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    only,
    time::{assert_at, now, timed},
};

/// Takes a while to become ready, anew for every clone and every call, and panics when it is called before.
struct Slow {
    calls: Arc<AtomicUsize>,
    fail_first: usize,
    waiting: Option<Pin<Box<Sleep>>>,
    ready: bool,
}

impl Slow {
    fn new(fail_first: usize) -> Self {
        Self {
            calls: Arc::default(),
            fail_first,
            waiting: None,
            ready: false,
        }
    }
}

impl Clone for Slow {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            fail_first: self.fail_first,
            waiting: None,
            ready: false,
        }
    }
}

impl Service<()> for Slow {
    type Response = &'static str;
    type Error = &'static str;
    type Future = std::future::Ready<Result<&'static str, &'static str>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let wait = std::time::Duration::from_millis(30);
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(now() + wait)));
        let poll = waiting.as_mut().poll(cx);
        self.ready = poll.is_ready();
        poll.map(Ok)
    }

    fn call(&mut self, (): ()) -> Self::Future {
        assert!(self.ready, "called before it was ready");
        self.ready = false;
        self.waiting = None;
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(if number < self.fail_first {
            Err("failed")
        } else {
            Ok("answered")
        })
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_waits_until_the_service_is_ready() {
    let layer = RetryGuardLayer::new(&only("maxRetries: 2"), "it", Plain::idempotent());
    let (took, answer) = timed(layer.layer(Slow::new(2)).oneshot(())).await;
    assert_eq!(answer.unwrap(), "answered");
    // Ready after 30, retried after 100 and 200, each of them ready after 30 more.
    assert_at(took, 390);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_a_place_waits_for_the_service_too() {
    let policy = only("bulkhead: { limit: 1, wait: 1s, waiting: 5 }");
    let layer = RetryGuardLayer::new(&policy, "it", Plain::idempotent());
    let slow = Slow::new(0);
    let calls: Vec<_> = (0..5)
        .map(|_| tokio::spawn(layer.layer(slow.clone()).oneshot(())))
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "answered");
    }
    assert_eq!(layer.handle().status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_never_gets_ready_ends_with_the_deadline() {
    struct Once {
        ready: bool,
    }
    impl Clone for Once {
        fn clone(&self) -> Self {
            Self { ready: false }
        }
    }
    impl Service<()> for Once {
        type Response = ();
        type Error = &'static str;
        type Future = std::future::Ready<Result<(), &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            if self.ready {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::ready(Err("failed"))
        }
    }
    let layer = RetryGuardLayer::new(&only("maxRetries: 2, deadline: 500ms"), "it", Plain::idempotent());
    let (took, result) = timed(layer.layer(Once { ready: true }).oneshot(())).await;
    assert_at(took, 500);
    assert!(
        matches!(result, Err(Error::TimedOut { attempts: 2, .. })),
        "{result:?}"
    );
    assert_eq!(layer.handle().status().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_will_never_be_ready_again_says_so() {
    #[derive(Clone)]
    struct Gone;
    impl Service<()> for Gone {
        type Response = ();
        type Error = &'static str;
        type Future = std::future::Ready<Result<(), &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            Poll::Ready(Err("gone"))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let layer = RetryGuardLayer::new(&only(""), "it", Plain::idempotent());
    let error = layer.layer(Gone).oneshot(()).await.unwrap_err();
    assert!(matches!(error, Error::NotReady("gone")), "{error:?}");
}
