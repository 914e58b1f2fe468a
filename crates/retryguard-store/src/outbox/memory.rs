use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::{sync::Notify, time::Instant};

use super::{Claimed, Counts, Event, Message, OutboxStore, Parked, Settled, Trouble};
use crate::{Backend, StoreError, clock};

/// An outbox in this process, for tests and demonstrations: what it holds ends with the process.
#[derive(Debug, Clone, Default)]
pub struct MemoryOutbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct State {
    last_number: i64,
    last_token: i64,
    lanes: BTreeMap<String, Lane>,
    parked: BTreeMap<i64, (String, Parked)>,
    published: BTreeMap<i64, Instant>,
}

#[derive(Debug)]
struct Lane {
    /// `None` while it is held.
    ready_at: Option<Instant>,
    token: i64,
    claims: u32,
    events: BTreeMap<i64, Message>,
}

impl MemoryOutbox {
    /// The most events that it holds, published ones that are kept included.
    pub const MOST_EVENTS: usize = 1_000_000;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes events, all or none.
    ///
    /// # Errors
    /// Where one is over a limit, or the outbox is full.
    pub fn put(&self, events: &[Event]) -> Result<(), StoreError> {
        events.iter().try_for_each(Event::check)?;
        let mut state = self.lock();
        if state.len() + events.len() > Self::MOST_EVENTS {
            return Err(StoreError::Full {
                backend: Backend::Memory,
                cause: None,
            });
        }
        for event in events {
            state.put(event);
        }
        drop(state);
        self.wake();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics half-way.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn len(&self) -> usize {
        let pending: usize = self.lanes.values().map(|lane| lane.events.len()).sum();
        pending + self.parked.len() + self.published.len()
    }

    fn put(&mut self, event: &Event) {
        self.last_number += 1;
        let number = self.last_number;
        let message = Message {
            id: clock::random_id(),
            number,
            topic: event.topic.clone(),
            key: event.key.clone(),
            payload: event.payload.clone(),
            headers: event.headers.clone(),
            written: clock::wall_clock(),
            failed: 0,
            waited: Duration::ZERO,
        };
        let lane = event.lane().unwrap_or_else(|| format!("u{number}"));
        self.lane(lane).events.insert(number, message);
    }

    fn lane(&mut self, name: String) -> &mut Lane {
        self.lanes.entry(name).or_insert_with(|| Lane {
            ready_at: Some(clock::now()),
            token: 0,
            claims: 0,
            events: BTreeMap::new(),
        })
    }

    fn settle(&mut self, settled: &Settled, keep: bool) -> bool {
        let Some(lane) = self.lanes.get_mut(&settled.lane) else {
            return false;
        };
        if lane.token != settled.token {
            return false;
        }
        let now = clock::now();
        for number in &settled.published {
            if lane.events.remove(number).is_some() && keep {
                self.published.insert(*number, now);
            }
        }
        for trouble in &settled.parked {
            if let Some(message) = lane.events.remove(&trouble.number) {
                let parked = parked(message, trouble);
                self.parked.insert(trouble.number, (settled.lane.clone(), parked));
            }
        }
        let mut wait = Duration::ZERO;
        if let Some((trouble, delay)) = &settled.retry {
            wait = *delay;
            if let Some(message) = lane.events.get_mut(&trouble.number) {
                message.failed = trouble.tries;
                message.waited = *delay;
            }
        }
        lane.token = 0;
        lane.claims = 0;
        lane.ready_at = (!settled.hold).then(|| now + wait);
        if lane.events.is_empty() && !settled.hold {
            self.lanes.remove(&settled.lane);
        }
        true
    }

    /// Lets a held lane go on.
    fn release(&mut self, lane: &str) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.ready_at.get_or_insert_with(clock::now);
        }
    }
}

fn parked(mut message: Message, trouble: &Trouble) -> Parked {
    message.failed = trouble.tries;
    Parked {
        message,
        error: trouble.error.clone(),
        parked: clock::wall_clock(),
    }
}

impl OutboxStore for MemoryOutbox {
    fn backend(&self) -> Backend {
        Backend::Memory
    }

    async fn claim(&self, lanes: u32, events: u32, lease: Duration) -> Result<Vec<Claimed>, StoreError> {
        let now = clock::now();
        let mut state = self.lock();
        let mut due: Vec<(Instant, String)> = state
            .lanes
            .iter()
            .filter_map(|(name, lane)| Some((lane.ready_at.filter(|at| *at <= now)?, name.clone())))
            .collect();
        due.sort();
        due.truncate(lanes as usize);
        let each = (events as usize / due.len().max(1)).max(1);
        let mut claimed = Vec::new();
        for (_, name) in due {
            state.last_token += 1;
            let token = state.last_token;
            let Some(lane) = state.lanes.get_mut(&name) else {
                continue;
            };
            lane.ready_at = Some(now + lease);
            lane.token = token;
            let crashes = lane.claims;
            lane.claims += 1;
            let most = if crashes > 0 { 1 } else { each };
            claimed.push(Claimed {
                lane: name,
                token,
                crashes,
                events: lane.events.values().take(most).cloned().collect(),
            });
        }
        Ok(claimed)
    }

    async fn settle(&self, lanes: &[Settled], keep: bool) -> Result<usize, StoreError> {
        let mut state = self.lock();
        Ok(lanes.iter().filter(|lane| !state.settle(lane, keep)).count())
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let state = self.lock();
        let pending = || state.lanes.values().flat_map(|lane| lane.events.values());
        let oldest = pending().map(|message| message.written).min();
        Ok(Counts {
            pending: pending().count() as u64,
            parked: state.parked.len() as u64,
            lag: oldest.map(age).unwrap_or_default(),
        })
    }

    async fn parked(&self, after: i64, limit: u32) -> Result<Vec<Parked>, StoreError> {
        let state = self.lock();
        let parked = state.parked.range(after.saturating_add(1)..);
        Ok(parked
            .take(limit as usize)
            .map(|(_, (_, parked))| parked.clone())
            .collect())
    }

    async fn retry(&self, number: i64) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let Some((lane, parked)) = state.parked.remove(&number) else {
            return Ok(false);
        };
        let mut message = parked.message;
        message.failed = 0;
        message.waited = Duration::ZERO;
        state.lane(lane.clone()).events.insert(number, message);
        state.release(&lane);
        drop(state);
        self.wake();
        Ok(true)
    }

    async fn discard(&self, number: i64) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let Some((lane, _)) = state.parked.remove(&number) else {
            return Ok(false);
        };
        state.release(&lane);
        drop(state);
        self.wake();
        Ok(true)
    }

    async fn release_held(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let names: Vec<String> = state.lanes.keys().cloned().collect();
        names.iter().for_each(|name| state.release(name));
        Ok(())
    }

    async fn clean(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let now = clock::now();
        let old: Vec<i64> = state
            .published
            .iter()
            .filter(|(_, at)| now.saturating_duration_since(**at) >= age)
            .map(|(number, _)| *number)
            .take(limit as usize)
            .collect();
        for number in &old {
            state.published.remove(number);
        }
        Ok(old.len() as u64)
    }

    fn wake(&self) {
        self.shared.woken.notify_one();
    }

    async fn woken(&self) {
        self.shared.woken.notified().await;
    }
}

fn age(written: SystemTime) -> Duration {
    clock::wall_clock().duration_since(written).unwrap_or_default()
}
