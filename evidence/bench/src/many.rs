//! Many calls that are under way at once.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use retryguard::{Policy, RetryGuardLayer, protocol::Plain};
use retryguard_core::target;
use tower_layer::Layer;
use tower_service::Service;

use crate::{clock, ours::whole_stack, service::Fault};

/// How many calls are under way at once.
pub const AT_ONCE: [usize; 4] = [1, 100, 10_000, 100_000];

/// What one of several calls at once takes.
#[derive(Debug, Clone, Copy)]
pub struct Many {
    /// Nanoseconds until it has sent its attempt and waits, its timer included.
    pub begin: f64,
    /// Nanoseconds from the answer to the end.
    pub end: f64,
    /// Bytes of its future.
    pub bytes: usize,
}

/// Makes a hundred thousand calls on one target, so many at once, and takes the best of some rounds. The stack is the whole one
/// without its bulkhead, which would let them wait.
#[must_use]
pub fn at_once(calls: usize, rounds: usize) -> Many {
    let settings = target::Settings {
        bulkhead: None,
        ..whole_stack()
    };
    let policy = retryguard_policy::Service {
        target: Arc::new(settings),
        ..(*Policy::default().service("bench")).clone()
    };
    let layer = RetryGuardLayer::from_service(Arc::new(policy), Plain::idempotent());
    let answered = Arc::new(AtomicBool::new(false));
    let mut service = layer.layer(Held(answered.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let mut cx = Context::from_waker(Waker::noop());
    let most = AT_ONCE[AT_ONCE.len() - 1];
    let (mut best, mut bytes) = ([f64::INFINITY; 2], 0);
    for _ in 0..rounds {
        let mut took = [Duration::ZERO; 2];
        for _ in 0..most / calls {
            answered.store(false, Ordering::Relaxed);
            let mut futures: Vec<_> = (0..calls)
                .map(|call| Box::pin(service.call(call as u64)))
                .collect();
            let began = clock::now();
            for future in &mut futures {
                assert!(future.as_mut().poll(&mut cx).is_pending(), "not answered yet");
            }
            let waiting = clock::now();
            answered.store(true, Ordering::Relaxed);
            for future in &mut futures {
                assert!(
                    matches!(future.as_mut().poll(&mut cx), Poll::Ready(Ok(_))),
                    "answered"
                );
            }
            took[0] += waiting - began;
            took[1] += clock::now() - waiting;
            bytes = size_of_val(&*futures[0]);
        }
        for (best, took) in best.iter_mut().zip(took) {
            *best = best.min(took.as_nanos() as f64 / most as f64);
        }
    }
    Many {
        begin: best[0],
        end: best[1],
        bytes,
    }
}

/// Answers when it is instructed to.
#[derive(Clone)]
struct Held(Arc<AtomicBool>);

struct HeldFuture(Arc<AtomicBool>);

impl Service<u64> for Held {
    type Response = u64;
    type Error = Fault;
    type Future = HeldFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u64) -> HeldFuture {
        HeldFuture(self.0.clone())
    }
}

impl Future for HeldFuture {
    type Output = Result<u64, Fault>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0.load(Ordering::Relaxed) {
            Poll::Ready(Ok(7))
        } else {
            Poll::Pending
        }
    }
}
