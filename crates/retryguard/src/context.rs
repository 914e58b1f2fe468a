//! What a server knows of the request it works on, handed to the calls that the work makes.
//!
//! The server layer sets a context for the task that handles a request; the client layers read it. So a
//! deadline and a criticality go down through all hops without a line of code in the handlers, and a failure
//! that has been retried below comes up marked. A task that the handler spawns has no context of its own:
//! hand it over with [`Context::current`] and [`Context::scope`].

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use retryguard_core::Criticality;

tokio::task_local! {
    static CONTEXT: Context;
}

/// The request that the present task works on.
#[derive(Debug, Clone)]
pub struct Context {
    deadline: Option<tokio::time::Instant>,
    criticality: Criticality,
    /// The deepest retried failure that the work has met.
    retried: Arc<AtomicU8>,
}

impl Context {
    pub(crate) fn new(deadline: Option<tokio::time::Instant>, criticality: Criticality) -> Self {
        Self {
            deadline,
            criticality,
            retried: Arc::new(AtomicU8::new(0)),
        }
    }

    /// The context of the present task, to be handed to a task that it spawns.
    #[must_use]
    pub fn current() -> Option<Self> {
        CONTEXT.try_with(Clone::clone).ok()
    }

    /// Runs a future in this context.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CONTEXT.scope(self, future).await
    }

    /// Runs a function in this context.
    pub(crate) fn enter<R>(&self, function: impl FnOnce() -> R) -> R {
        CONTEXT.sync_scope(self.clone(), function)
    }

    /// When the request must be answered.
    #[must_use]
    pub const fn deadline(&self) -> Option<tokio::time::Instant> {
        self.deadline
    }

    /// How much the request matters.
    #[must_use]
    pub const fn criticality(&self) -> Criticality {
        self.criticality
    }

    /// How many layers below have retried a failure that the work met; zero for none.
    #[must_use]
    pub fn retried(&self) -> u8 {
        self.retried.load(Ordering::Relaxed)
    }
}

/// What the calls of the present task inherit.
#[inline]
pub(crate) fn inherited() -> Option<(Option<tokio::time::Instant>, Criticality)> {
    CONTEXT
        .try_with(|context| (context.deadline, context.criticality))
        .ok()
}

/// Notes that a call of the present task failed after `layers` layers have retried it.
pub(crate) fn note_retried(layers: u8) {
    // A task without a context is no server's work: there is nobody above to be told.
    let _ = CONTEXT.try_with(|context| context.retried.fetch_max(layers, Ordering::Relaxed));
}
