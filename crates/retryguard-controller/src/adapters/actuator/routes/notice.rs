//! Watches the API server for changes of objects, so that an edit made while retries are off is known within
//! seconds. What it means is read from the objects themselves, by the same question as at every look: a stream can be
//! late, doubled or cut off, and must not be a second opinion on what the cluster holds.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Poll;

use kube::runtime::watcher::{Error, Event};

use crate::adapters::actuator::routes::Routes;
use crate::adapters::actuator::routes::object::{Changes, Metadata};
use crate::adapters::causes::chain;

impl Routes {
    /// Notes that a version of an object is our own work.
    pub(super) fn wrote(&self, uid: &str, version: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(uid.to_owned(), version.to_owned());
    }

    /// Calls `changed` for every change that may have come from elsewhere while something is held. Never ends.
    pub(super) async fn watch(&self, changed: &(dyn Fn() + Send + Sync)) {
        let mut streams = self.objects.changes();
        let mut complained = false;
        while let Some(event) = next(&mut streams).await {
            match event {
                Ok(event) => {
                    complained = false;
                    if self.concerns(&event) {
                        changed();
                    }
                }
                // It is tried again, less and less often; looks find what is missed meanwhile. Told once in a row.
                Err(error) if !complained => {
                    complained = true;
                    let error = chain(&error);
                    tracing::warn!(
                        target: "retryguard::controller",
                        actuator = self.scope.dialect.actuator(),
                        error,
                        "does not say when routes change: edits are noticed at the next look; may the account `watch` them?"
                    );
                }
                Err(_) => {}
            }
        }
        // No stream ends by itself.
        std::future::pending::<()>().await;
    }

    fn concerns(&self, event: &Event<Metadata>) -> bool {
        if !self.holds.load(Ordering::Relaxed) {
            // Then the user's configuration stands everywhere, whatever it is.
            return false;
        }
        match event {
            Event::Apply(object) => {
                let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                let ours = object.metadata.uid.as_ref().and_then(|uid| written.get(uid));
                ours.is_none() || ours != object.metadata.resource_version.as_ref()
            }
            // Whatever happened before the stream began.
            Event::Delete(_) | Event::InitDone => true,
            Event::Init | Event::InitApply(_) => false,
        }
    }
}

/// What the next of them says; none when all have ended.
async fn next(streams: &mut Vec<Changes>) -> Option<Result<Event<Metadata>, Error>> {
    poll_fn(|context| {
        let mut place = 0;
        while let Some(stream) = streams.get_mut(place) {
            match stream.as_mut().poll_next(context) {
                Poll::Ready(Some(event)) => {
                    // The others' turn comes first, the next time.
                    streams.rotate_left(place + 1);
                    return Poll::Ready(Some(event));
                }
                Poll::Ready(None) => drop(streams.remove(place)),
                Poll::Pending => place += 1,
            }
        }
        if streams.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    })
    .await
}
