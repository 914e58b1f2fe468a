//! Keys that requests of this process work on.
//!
//! Where a key is claimed in the transaction of the effect, no record says that a request works on it: two processes may do so
//! at the same moment, and the unique key decides. Within one process the second request waits for the first, so that duplicates
//! do not run the handler, nor take connections, only to be rolled back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::watch, time::Instant};

use super::KeyId;
use crate::clock;

#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    keys: HashMap<KeyId, Entry>,
    entered: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    other: Other,
}

/// A request that works on the same key.
#[derive(Debug, Clone)]
pub(super) struct Other {
    /// Closed when it has ended.
    ended: watch::Receiver<()>,
    /// When another may work on the key beside it.
    till: Instant,
}

/// The right to work on a key in this process, until it is dropped.
#[derive(Debug)]
pub(super) struct LocalClaim {
    in_flight: Arc<InFlight>,
    id: KeyId,
    number: u64,
    /// Dropped with the claim, which wakes those that wait.
    _end: watch::Sender<()>,
}

impl InFlight {
    /// Takes the key until `till` at most, or says which request has it.
    pub(super) fn enter(self: &Arc<Self>, id: KeyId, till: Instant) -> Result<LocalClaim, Other> {
        let mut state = self.state();
        if let Some(entry) = state.keys.get(&id)
            && entry.other.till > clock::now()
        {
            return Err(entry.other.clone());
        }
        state.entered += 1;
        let number = state.entered;
        let (end, ended) = watch::channel(());
        let other = Other { ended, till };
        state.keys.insert(id, Entry { number, other });
        Ok(LocalClaim {
            in_flight: self.clone(),
            id,
            number,
            _end: end,
        })
    }

    /// No step of this module leaves the map half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LocalClaim {
    fn drop(&mut self) {
        let mut state = self.in_flight.state();
        // Another has taken the key over where this one took too long.
        if state
            .keys
            .get(&self.id)
            .is_some_and(|entry| entry.number == self.number)
        {
            state.keys.remove(&self.id);
        }
    }
}

impl Other {
    /// Waits until it has ended or its time has run out, and no longer than `end`; false where it still works then.
    pub(super) async fn ended_before(&mut self, end: Instant) -> bool {
        let ended = tokio::time::timeout_at(end.min(self.till), self.ended.changed()).await;
        ended.is_ok() || self.till <= clock::now()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ID: KeyId = KeyId([7; 32]);
    const LOCK: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn the_second_waits_for_the_first() {
        let in_flight = Arc::new(InFlight::default());
        let claim = in_flight.enter(ID, clock::now() + LOCK).unwrap();
        let mut first = in_flight.enter(ID, clock::now() + LOCK).unwrap_err();
        assert!(!first.ended_before(clock::now() + LOCK / 2).await);
        assert!(in_flight.enter(KeyId([8; 32]), clock::now() + LOCK).is_ok());
        tokio::spawn(async move {
            clock::sleep(LOCK / 4).await;
            drop(claim);
        });
        let from = clock::now();
        assert!(first.ended_before(clock::now() + LOCK).await);
        assert_eq!(clock::now() - from, LOCK / 4);
        assert!(in_flight.enter(ID, clock::now() + LOCK).is_ok());
        assert!(in_flight.state().keys.is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_too_long_is_joined_by_another() {
        let in_flight = Arc::new(InFlight::default());
        let slow = in_flight.enter(ID, clock::now() + LOCK).unwrap();
        let mut first = in_flight.enter(ID, clock::now() + LOCK).unwrap_err();
        assert!(first.ended_before(clock::now() + 2 * LOCK).await);
        let next = in_flight.enter(ID, clock::now() + LOCK).unwrap();
        drop(slow);
        assert!(
            in_flight.enter(ID, clock::now() + LOCK).is_err(),
            "the end of the slow one does not free the key of the next"
        );
        drop(next);
        assert!(in_flight.enter(ID, clock::now() + LOCK).is_ok());
    }
}
