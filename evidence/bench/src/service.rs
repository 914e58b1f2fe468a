//! The service at the bottom, and the loop that calls.

use std::{
    future::{Ready, ready},
    hint::black_box,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use tower_service::Service;

use crate::{Caller, Subject};

/// An error that no call meets.
#[derive(Debug, Clone)]
pub(crate) struct Fault;

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fault")
    }
}

impl std::error::Error for Fault {}

/// What every subject does in the end.
#[inline]
pub(crate) fn work(request: u64) -> Result<u64, Fault> {
    Ok(black_box(request))
}

/// Always ready, answers at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bottom;

impl Service<u64> for Bottom {
    type Response = u64;
    type Error = Fault;
    type Future = Ready<Result<u64, Fault>>;

    #[inline]
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: u64) -> Self::Future {
        ready(work(request))
    }
}

/// The service alone: what the loop itself costs.
pub(crate) fn bare() -> Subject {
    Subject {
        name: "bare",
        package: "retryguard-bench",
        what: "the bare service",
        peer: None,
        target: || Box::new(|| calls_of(Bottom)),
    }
}

/// Calls a service. Polled by hand: a runtime's scheduler would drown what is measured.
pub(crate) fn calls_of<S>(mut service: S) -> Caller
where
    S: Service<u64> + Send + 'static,
{
    Box::new(move |calls| {
        let waker = waker();
        let mut cx = Context::from_waker(&waker);
        for request in 0..calls {
            let ready = service.poll_ready(&mut cx);
            assert!(matches!(ready, Poll::Ready(Ok(()))), "always ready");
            let future = pin!(service.call(black_box(request)));
            assert!(drive(&mut cx, future).is_ok(), "always succeeds");
        }
    })
}

/// Polls a future to its end. Most are ready at once; some peers wait here for each other's locks.
#[inline]
pub(crate) fn drive<F: Future>(cx: &mut Context<'_>, mut future: Pin<&mut F>) -> F::Output {
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return output;
        }
        std::thread::park();
    }
}

/// Wakes this thread: some peers wait for each other's locks.
pub(crate) fn waker() -> Waker {
    WAKER.with(Waker::clone)
}

thread_local! {
    /// Made once a thread, so that it is not counted among the allocations of the calls.
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
