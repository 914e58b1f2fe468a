//! Keys in this process: for one process, and for tests. What it knows ends with it.

use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Asked, Fingerprint, Held, IdempotencyStore, KeyId, Standing, StoreFuture, StoredResponse,
    machine::{self, Decision, Record, Version},
    record::CALLER,
};
use crate::{Backend, StoreError, clock};

/// How many keys are kept, unless said otherwise: at 24 h a little more than one a second.
const KEYS: usize = 100_000;
/// How many bytes of responses are kept, unless said otherwise.
const BYTES: usize = 64 * 1024 * 1024;

/// Keeps keys in this process. Clones share them.
///
/// It holds a bounded number of keys and bytes; when it is full of keys that are still kept, claims fail with
/// [`StoreError::Full`], because forgetting a key early is doing its effect twice. One caller cannot fill it for all: it
/// may use half of the room that the other callers leave.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    keys: usize,
    bytes: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<KeyId, Entry>,
    /// By when they are forgotten.
    expiry: BTreeSet<(Instant, KeyId)>,
    bytes: usize,
    tokens: i64,
    /// What each caller uses.
    callers: HashMap<[u8; CALLER], Used>,
}

/// Keys and bytes of one caller.
#[derive(Debug, Default, Clone, Copy)]
struct Used {
    keys: usize,
    bytes: usize,
}

/// Whether a caller that uses `own` of `used` may use `more`: half of what the others leave, and at least one more key
/// while there is room at all. However many callers fill their share, there is room for the next.
fn has_room(room: usize, used: usize, own: usize, more: usize) -> bool {
    let left_by_others = room.saturating_sub(used - own);
    own + more <= left_by_others.div_ceil(2) && used + more <= room
}

#[derive(Debug)]
struct Entry {
    fingerprint: Fingerprint,
    token: i64,
    locked_until: Instant,
    expires_at: Instant,
    response: Option<StoredResponse>,
}

impl Entry {
    fn record(&self, now: Instant) -> Record {
        let lock_left = self.locked_until.saturating_duration_since(now);
        Record {
            fingerprint: self.fingerprint,
            token: self.token,
            lock_left,
            // This clock is never set back.
            lock: lock_left,
            expired: self.expires_at <= now,
            response: self.response.clone(),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Room for 100,000 keys and 64 MiB of responses.
    #[must_use]
    pub fn new() -> Self {
        Self::with_room(KEYS, BYTES)
    }

    /// Room for as many keys, and as many bytes of responses.
    #[must_use]
    pub fn with_room(keys: usize, bytes: usize) -> Self {
        Self {
            keys,
            bytes,
            state: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_now(&self, asked: Asked) -> Result<Standing, StoreError> {
        let now = clock::now();
        let mut state = self.lock();
        let record = state.entries.get(&asked.id).map(|entry| entry.record(now));
        match machine::decide(record.as_ref(), asked.fingerprint) {
            Decision::Mismatch => return Ok(Standing::OtherRequest),
            Decision::Busy(left) | Decision::Relock(_, left) => return Ok(Standing::Busy(left)),
            Decision::Replay => {
                if let Some(response) = record.and_then(|record| record.response) {
                    return Ok(Standing::Done(response));
                }
            }
            Decision::Insert | Decision::TakeOver(_) => {}
        }
        state.forget(asked.id);
        let has_room = |state: &State| {
            let own = state.used(asked.id).keys;
            has_room(self.keys, state.entries.len(), own, 1)
        };
        if !has_room(&state) {
            state.sweep(now, u32::MAX);
        }
        if !has_room(&state) {
            return Err(full());
        }
        Ok(Standing::Yours(state.insert(asked, now)))
    }

    fn complete_now(
        &self,
        held: Held,
        response: &StoredResponse,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        let now = clock::now();
        let size = response.size();
        let mut state = self.lock();
        if state.holder(held).is_none() {
            return Ok(false);
        }
        let has_room = |state: &State| {
            let own = state.used(held.id).bytes;
            has_room(self.bytes, state.bytes, own, size)
        };
        if !has_room(&state) {
            state.sweep(now, u32::MAX);
        }
        if !has_room(&state) {
            return Err(full());
        }
        let expires_at = now + keep;
        let Some(entry) = state.holder(held) else {
            return Ok(false);
        };
        let before = std::mem::replace(&mut entry.expires_at, expires_at);
        entry.response = Some(response.clone());
        state.expiry.remove(&(before, held.id));
        state.expiry.insert((expires_at, held.id));
        state.bytes += size;
        state.callers.entry(held.id.caller()).or_default().bytes += size;
        Ok(true)
    }
}

fn full() -> StoreError {
    StoreError::Full {
        backend: Backend::Memory,
        cause: None,
    }
}

impl State {
    fn insert(&mut self, asked: Asked, now: Instant) -> Held {
        self.tokens += 1;
        let entry = Entry {
            fingerprint: asked.fingerprint,
            token: self.tokens,
            locked_until: now + asked.lock,
            expires_at: now + asked.keep,
            response: None,
        };
        self.expiry.insert((entry.expires_at, asked.id));
        self.entries.insert(asked.id, entry);
        self.callers.entry(asked.id.caller()).or_default().keys += 1;
        Held {
            id: asked.id,
            token: self.tokens,
        }
    }

    /// The entry that the caller still holds.
    fn holder(&mut self, held: Held) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&held.id)?;
        let version = Version {
            token: entry.token,
            completed: entry.response.is_some(),
        };
        (version == Version::held(held)).then_some(entry)
    }

    fn forget(&mut self, id: KeyId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.expiry.remove(&(entry.expires_at, id));
            let size = entry.response.map_or(0, |response| response.size());
            self.bytes -= size;
            if let Some(used) = self.callers.get_mut(&id.caller()) {
                used.keys -= 1;
                used.bytes -= size;
                if used.keys == 0 {
                    self.callers.remove(&id.caller());
                }
            }
        }
    }

    /// What the caller of a key uses.
    fn used(&self, id: KeyId) -> Used {
        self.callers.get(&id.caller()).copied().unwrap_or_default()
    }

    fn sweep(&mut self, now: Instant, limit: u32) -> u64 {
        let mut swept = 0;
        while swept < u64::from(limit) {
            match self.expiry.first() {
                Some(&(at, id)) if at <= now => self.forget(id),
                _ => break,
            }
            swept += 1;
        }
        swept
    }
}

impl IdempotencyStore for MemoryStore {
    fn backend(&self) -> Backend {
        Backend::Memory
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(ready(self.claim_now(asked)))
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(ready(self.complete_now(held, response, keep)))
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        if let Some(entry) = self.lock().holder(held) {
            entry.locked_until = clock::now();
        }
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        let swept = self.lock().sweep(clock::now(), limit);
        Box::pin(ready(Ok(swept)))
    }
}
