//! What a server knows of the request it works on, handed to the calls that the work makes.
//!
//! The server layer sets a context for the task that handles a request; the client layers read it. So a
//! deadline and a criticality go down through all hops without a line of code in the handlers, and a failure
//! that has been retried below comes up marked. A task that the handler spawns has no context of its own:
//! hand it over with [`Context::current`] and [`Context::scope`].
//!
//! A `tower::buffer::Buffer` above a client layer makes the calls in a task of its own, which has no context
//! either. Put a [`ContextLayer`] above the buffer: it hands the context on in the request's extensions, where the
//! client layers look too.
//!
//! ```
//! use retryguard::{Policy, context::ContextLayer, for_http::HttpLayer};
//! use tower::ServiceBuilder;
//!
//! let policy = Policy::default();
//! let stack = ServiceBuilder::new()
//!     .layer(ContextLayer)
//!     .buffer::<http::Request<String>>(64)
//!     .layer(HttpLayer::new(&policy, "payments"));
//! ```

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{self, Poll},
};

use retryguard_core::Criticality;
use tower_layer::Layer;
use tower_service::Service;

thread_local! {
    /// The context of the task that this thread polls at present. Moved in and out around every poll, so that a poll clones
    /// nothing.
    static CURRENT: Cell<Option<Context>> = const { Cell::new(None) };

    /// What no context uses any more, kept for the next request of this thread.
    static SPARE: RefCell<Vec<Arc<Inner>>> = const { RefCell::new(Vec::new()) };
}

/// How many of them a thread keeps.
const SPARES: usize = 256;

/// The request that the present task works on. One word, because it is moved in and out with every poll.
#[derive(Debug, Clone)]
pub struct Context(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    deadline: Option<tokio::time::Instant>,
    criticality: Criticality,
    /// The deepest retried failure that the work has met.
    retried: AtomicU8,
}

impl Context {
    /// A context for work that did not come as a request of the server layer: a job, a message from a queue, a server
    /// of another protocol.
    #[must_use]
    pub fn new(deadline: Option<tokio::time::Instant>, criticality: Criticality) -> Self {
        let mut inner = spare().unwrap_or_default();
        // No other context has a spare one: it was alone when it was put away.
        if let Some(inner) = Arc::get_mut(&mut inner) {
            inner.deadline = deadline;
            inner.criticality = criticality;
        }
        Self(inner)
    }

    /// The context of the present task, to be handed to a task that it spawns.
    #[must_use]
    pub fn current() -> Option<Self> {
        with_current(Clone::clone)
    }

    /// Runs a future in this context.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        let mut context = Some(self);
        let mut future = pin!(future);
        poll_fn(|cx| enter(&mut context, || future.as_mut().poll(cx))).await
    }

    /// Puts this context into a request's extensions, for client layers that run in another task.
    pub fn carry<B>(self, request: &mut http::Request<B>) {
        request.extensions_mut().insert(self);
    }

    /// The request has been answered: what [`Context::retried`] says in the end. Its memory is kept for the next request,
    /// unless a task still has this context.
    #[inline]
    pub(crate) fn recycle(mut self) -> u8 {
        let Some(inner) = Arc::get_mut(&mut self.0) else {
            return self.retried();
        };
        let layers = std::mem::take(inner.retried.get_mut());
        // Without the thread's storage, at the end of the thread, it is dropped.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(self.0);
            }
        });
        layers
    }

    /// When the request must be answered.
    #[must_use]
    pub fn deadline(&self) -> Option<tokio::time::Instant> {
        self.0.deadline
    }

    /// How much the request matters.
    #[must_use]
    pub fn criticality(&self) -> Criticality {
        self.0.criticality
    }

    pub(crate) fn note_retried(&self, layers: u8) {
        self.0.retried.fetch_max(layers, Ordering::Relaxed);
    }

    /// How many layers below have retried a failure that the work met; zero for none.
    #[must_use]
    pub fn retried(&self) -> u8 {
        self.0.retried.load(Ordering::Relaxed)
    }
}

#[inline]
fn spare() -> Option<Arc<Inner>> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten()
}

/// Runs a function in the context that `slot` holds.
#[inline]
pub(crate) fn enter<R>(slot: &mut Option<Context>, function: impl FnOnce() -> R) -> R {
    /// Swaps again when it is dropped, a panic of the function included.
    struct Restore<'a>(&'a mut Option<Context>);
    impl Drop for Restore<'_> {
        #[inline]
        fn drop(&mut self) {
            swap_current(self.0);
        }
    }
    swap_current(slot);
    let _restore = Restore(slot);
    function()
}

#[inline]
fn swap_current(slot: &mut Option<Context>) {
    // Without the thread's storage, at the end of the thread, there is no context.
    let _ = CURRENT.try_with(|current| *slot = current.replace(slot.take()));
}

#[inline]
fn with_current<R>(read: impl FnOnce(&Context) -> R) -> Option<R> {
    let read = CURRENT.try_with(|current| {
        let context = current.take()?;
        let result = read(&context);
        current.set(Some(context));
        Some(result)
    });
    read.ok().flatten()
}

/// What the calls of the present task inherit.
#[inline]
pub(crate) fn inherited() -> Option<(Option<tokio::time::Instant>, Criticality)> {
    with_current(|context| (context.deadline(), context.criticality()))
}

/// Notes that a call of the present task failed after `layers` layers have retried it.
pub(crate) fn note_retried(layers: u8) {
    // A task without a context does not serve a request: no layer above reads the mark.
    let _ = with_current(|context| context.note_retried(layers));
}

/// Puts the context of the calling task into every request. For a place above a `Buffer`, or above anything else that
/// makes calls in a task of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContextLayer;

impl<S> Layer<S> for ContextLayer {
    type Service = CarryContext<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CarryContext { inner }
    }
}

/// The service of a [`ContextLayer`].
#[derive(Debug, Clone, Copy)]
pub struct CarryContext<S> {
    inner: S,
}

impl<S, B> Service<http::Request<B>> for CarryContext<S>
where
    S: Service<http::Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> S::Future {
        if let Some(context) = Context::current() {
            context.carry(&mut request);
        }
        self.inner.call(request)
    }
}
