use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::check_id;
use crate::{Backend, StoreError, clock};

/// The inbox of a consumer whose effects are in this process's memory too.
#[derive(Debug, Clone, Default)]
pub struct MemoryInbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// When each was marked; `None` while its effect is under way.
    marks: Mutex<HashMap<String, Option<Instant>>>,
    changed: Notify,
}

/// Leave to have an effect. [`First::done`] makes the mark; dropping it without takes it back, as rolling a
/// transaction back would.
#[derive(Debug)]
#[must_use = "the mark is taken back when this is dropped"]
pub struct First {
    shared: Arc<Shared>,
    id: String,
    done: bool,
}

impl MemoryInbox {
    /// The most marks that it holds.
    pub const MOST_MARKS: usize = 1_000_000;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `Some` where the event is new. Waits while another delivery of the same event has its effect.
    ///
    /// # Errors
    /// Where the id is empty or too long, or the inbox is full.
    pub async fn first(&self, id: &str) -> Result<Option<First>, StoreError> {
        check_id(id)?;
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let known = self.shared.lock().get(id).copied();
            match known {
                Some(Some(_)) => return Ok(None),
                Some(None) => changed.await,
                None => {
                    if let Some(first) = self.take(id)? {
                        return Ok(Some(first));
                    }
                }
            }
        }
    }

    /// `None` where another consumer was quicker.
    fn take(&self, id: &str) -> Result<Option<First>, StoreError> {
        let mut marks = self.shared.lock();
        if marks.contains_key(id) {
            return Ok(None);
        }
        if marks.len() >= Self::MOST_MARKS {
            return Err(StoreError::Full {
                backend: Backend::Memory,
                cause: None,
            });
        }
        marks.insert(id.to_owned(), None);
        Ok(Some(First {
            shared: self.shared.clone(),
            id: id.to_owned(),
            done: false,
        }))
    }

    /// Deletes at most `limit` marks older than `age`; says how many it were.
    pub fn clean(&self, age: Duration, limit: usize) -> usize {
        let now = clock::now();
        let mut marks = self.shared.lock();
        let old: Vec<String> = marks
            .iter()
            .filter(|(_, at)| at.is_some_and(|at| now.saturating_duration_since(at) >= age))
            .map(|(id, _)| id.clone())
            .take(limit)
            .collect();
        for id in &old {
            marks.remove(id);
        }
        old.len()
    }
}

impl First {
    /// The effect has happened.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let mut marks = self.shared.lock();
        if self.done {
            marks.insert(std::mem::take(&mut self.id), Some(clock::now()));
        } else {
            marks.remove(&self.id);
        }
        drop(marks);
        self.shared.changed.notify_waiters();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Instant>>> {
        // Nothing under the lock panics half-way.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
