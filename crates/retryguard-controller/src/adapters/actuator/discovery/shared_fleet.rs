//! The fleet behind its lock, and the tasks that are woken when it changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::adapters::actuator::discovery::fleet::{Fleet, NodeRequest, Phase, Stream, StreamRefused, Update};

/// What the streams and the actuator share. The lock is held for one step of the fleet and never across a wait.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct SharedFleet<S> {
    /// What is served besides the decisions: names and settings that do not change.
    pub(in crate::adapters::actuator) served: S,
    fleet: Mutex<Fleet>,
    /// Moves when there is something to say.
    updates: watch::Sender<()>,
    /// Moves when a node has answered, come or gone.
    responses: watch::Sender<()>,
}

impl<S> SharedFleet<S> {
    pub(in crate::adapters::actuator) fn new(served: S) -> Self {
        Self {
            served,
            fleet: Mutex::new(Fleet::new()),
            updates: watch::Sender::new(()),
            responses: watch::Sender::new(()),
        }
    }

    /// The fleet, to look at or to change without anything to say.
    pub(in crate::adapters::actuator) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        // A step of the fleet that panicked has left it between two valid states at worst: a layer that is sent again.
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the fleet and wakes every stream.
    pub(in crate::adapters::actuator) fn change<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> T {
        let answer = change(&mut self.fleet());
        self.updates.send_replace(());
        self.responses.send_replace(());
        answer
    }

    /// Wakes when there may be something to say.
    pub(in crate::adapters::actuator) fn updates(&self) -> watch::Receiver<()> {
        self.updates.subscribe()
    }

    /// Wakes when a node has answered, come or gone.
    pub(in crate::adapters::actuator) fn responses(&self) -> watch::Receiver<()> {
        self.responses.subscribe()
    }
}

/// A stream's place at the shared fleet; given back when the stream ends, however it ends.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct StreamHandle<S> {
    shared: Arc<SharedFleet<S>>,
    stream: Stream,
}

impl<S> StreamHandle<S> {
    pub(in crate::adapters::actuator) fn take(
        shared: &Arc<SharedFleet<S>>,
        address: &str,
    ) -> Result<Self, StreamRefused> {
        let stream = shared.fleet().open_stream(address)?;
        Ok(Self {
            shared: Arc::clone(shared),
            stream,
        })
    }

    pub(in crate::adapters::actuator) fn on_request(&self, ask: &NodeRequest) {
        self.shared.fleet().on_request(self.stream, ask);
        self.shared.responses.send_replace(());
    }

    pub(in crate::adapters::actuator) fn has_update(&self) -> bool {
        self.shared.fleet().has_update(self.stream)
    }

    pub(in crate::adapters::actuator) fn next_update(&self) -> Option<Update> {
        self.shared.fleet().next_update(self.stream)
    }

    pub(in crate::adapters::actuator) fn may_continue(&self) -> bool {
        self.shared.fleet().phase() != Phase::Idle
    }
}

impl<S> Drop for StreamHandle<S> {
    fn drop(&mut self) {
        self.shared.fleet().close_stream(self.stream);
        self.shared.responses.send_replace(());
    }
}
