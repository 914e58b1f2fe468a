//! The decision about a key, without a database: every backend loads a record, asks [`decide`], and stores the change
//! under the [`Version`] that it has seen.
//!
//! | record | decision |
//! | --- | --- |
//! | none | [`Decision::Insert`] |
//! | no longer kept | [`Decision::TakeOver`] |
//! | kept, for another request | [`Decision::Mismatch`] |
//! | kept, completed | [`Decision::Replay`] |
//! | kept, lock runs | [`Decision::Busy`] |
//! | kept, more of the lock is left than its whole length: the clock was set back | [`Decision::Relock`] |
//! | kept, released or lock run out | [`Decision::TakeOver`] |
//!
//! A change is stored only if the record still has the version that was seen, so two processes that decide at the
//! same moment cannot both succeed. A completed record never becomes incomplete under the same token, and a claim
//! always changes the token: the version names one state.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "only databases load and store records by themselves")
)]

use std::time::Duration;

use super::{Asked, Fingerprint, Held, KeyId, Standing, StoredResponse};
use crate::StoreError;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::{Backend, Statement};

/// A key as it is stored. Spans are what is left by the backend's own clock at the moment of loading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) fingerprint: Fingerprint,
    pub(super) token: i64,
    /// What is left of the holder's lock; zero where it was released or has run out.
    pub(super) lock_left: Duration,
    /// The whole length of that lock, as its holder asked for it.
    pub(super) lock: Duration,
    /// Whether the key is no longer kept.
    pub(super) expired: bool,
    /// The final response; none while the request is in progress.
    pub(super) response: Option<StoredResponse>,
}

/// The state of a record that a change replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) token: i64,
    pub(super) completed: bool,
}

impl Version {
    /// The state in which a holder may complete or release its key.
    pub(super) const fn held(held: Held) -> Self {
        Self {
            token: held.token,
            completed: false,
        }
    }
}

impl Record {
    pub(super) const fn version(&self) -> Version {
        Version {
            token: self.token,
            completed: self.response.is_some(),
        }
    }
}

/// What to do about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Store a new record.
    Insert,
    /// Replace the record of this version by a claim.
    TakeOver(Version),
    /// Another request holds the key, for this long at most.
    Busy(Duration),
    /// The clock was set back, so the lock would outlive its length: store it anew with its whole length.
    Relock(Version, Duration),
    /// The request was completed: answer with the stored response.
    Replay,
    /// The key belongs to another request.
    Mismatch,
}

/// Decides what a request with this fingerprint may do about its key.
pub(super) fn decide(record: Option<&Record>, fingerprint: Fingerprint) -> Decision {
    let Some(record) = record else {
        return Decision::Insert;
    };
    if record.expired {
        return Decision::TakeOver(record.version());
    }
    if record.fingerprint != fingerprint {
        return Decision::Mismatch;
    }
    if record.response.is_some() {
        return Decision::Replay;
    }
    if record.lock_left.is_zero() {
        return Decision::TakeOver(record.version());
    }
    if record.lock_left > record.lock {
        return Decision::Relock(record.version(), record.lock);
    }
    Decision::Busy(record.lock_left)
}

/// A change of a record, stored only under the version that was seen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// A claim: a greater token, a new lock, no response.
    Claim(&'a Asked),
    /// The final response, kept for this long.
    Complete(&'a StoredResponse, Duration),
    /// The lock, from now on.
    Lock(Duration),
}

/// What a backend found when it tried to store a new record.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each claim, and a box would be an allocation for each"
)]
pub(super) enum Found {
    /// There was none: stored, with this token.
    Inserted(i64),
    /// There is one.
    Record(Record),
    /// It came or went between two statements: ask again.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "Redis inserts and reads in one step")
    )]
    Moved,
}

/// A key that no other request holds, as it was seen: the claim, the effect and the response are stored together, and
/// the version decides which of two requests that saw the same was first.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "only databases with transactions store an open key")
)]
pub struct Open {
    pub(super) asked: Asked,
    /// None where there was no record.
    pub(super) seen: Option<Version>,
}

/// What a backend does: it loads and stores, and decides nothing.
pub(super) trait Records: Send {
    /// Stores a claim where there is no record, and loads the record otherwise.
    fn insert_or_load(&mut self, asked: &Asked) -> impl Future<Output = Result<Found, StoreError>> + Send;

    /// Stores a change if the record still has this version; answers its token then.
    fn replace(
        &mut self,
        id: KeyId,
        seen: Version,
        change: Change<'_>,
    ) -> impl Future<Output = Result<Option<i64>, StoreError>> + Send;
}

/// What a database with transactions does besides.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) trait TransactionalRecords: Records {
    /// Which database it is.
    const BACKEND: Backend;

    /// Loads the record, where there is one.
    fn load(&mut self, id: KeyId) -> impl Future<Output = Result<Option<Record>, StoreError>> + Send;

    /// The statement that stores a change if the record still has this version.
    fn replacement(id: KeyId, seen: Version, change: Change<'_>) -> Statement;

    /// The statement that stores a completed record in the place of what was seen.
    fn storage(open: &Open, response: &StoredResponse, keep: Duration) -> Statement;

    /// Executes a statement and says how many rows it changed.
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Forgets keys that are no longer kept, `limit` at most, and says how many.
    fn sweep(&mut self, limit: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// How often a claim starts again because another process changed the record between two statements.
const ROUNDS: usize = 8;

/// Claims a key.
pub(super) async fn claim(records: &mut impl Records, asked: Asked) -> Result<Standing, StoreError> {
    let held = |token| {
        let id = asked.id;
        Standing::Yours(Held { id, token })
    };
    for _ in 0..ROUNDS {
        let record = match records.insert_or_load(&asked).await? {
            Found::Inserted(token) => return Ok(held(token)),
            Found::Record(record) => record,
            Found::Moved => continue,
        };
        match decide(Some(&record), asked.fingerprint) {
            // Not where there is a record.
            Decision::Insert => {}
            Decision::TakeOver(seen) => {
                if let Some(token) = records.replace(asked.id, seen, Change::Claim(&asked)).await? {
                    return Ok(held(token));
                }
            }
            Decision::Relock(seen, lock) => {
                if records
                    .replace(asked.id, seen, Change::Lock(lock))
                    .await?
                    .is_some()
                {
                    return Ok(Standing::Busy(lock));
                }
            }
            Decision::Busy(left) => return Ok(Standing::Busy(left)),
            Decision::Mismatch => return Ok(Standing::OtherRequest),
            Decision::Replay => {
                if let Some(response) = record.response {
                    return Ok(Standing::Done(response));
                }
            }
        }
    }
    Ok(Standing::Busy(Duration::ZERO))
}

/// Says how a key stands, and claims nothing.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) async fn look(
    records: &mut impl TransactionalRecords,
    asked: Asked,
) -> Result<Standing, StoreError> {
    let record = records.load(asked.id).await?;
    Ok(match decide(record.as_ref(), asked.fingerprint) {
        Decision::Insert => Standing::Open(Open { asked, seen: None }),
        Decision::TakeOver(version) => {
            let seen = Some(version);
            Standing::Open(Open { asked, seen })
        }
        Decision::Relock(seen, lock) => {
            records.replace(asked.id, seen, Change::Lock(lock)).await?;
            Standing::Busy(lock)
        }
        Decision::Busy(left) => Standing::Busy(left),
        Decision::Mismatch => Standing::OtherRequest,
        Decision::Replay => match record.and_then(|record| record.response) {
            Some(response) => Standing::Done(response),
            None => Standing::Busy(Duration::ZERO),
        },
    })
}

/// Stores the response for a key that was seen open; false where another request was faster.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) async fn store<R: TransactionalRecords>(
    records: &mut R,
    open: &Open,
    response: &StoredResponse,
    keep: Duration,
) -> Result<bool, StoreError> {
    let statement = R::storage(open, response, keep);
    Ok(records.execute(&statement).await? == 1)
}

/// Stores the response, if the key is still the holder's.
pub(super) async fn complete(
    records: &mut impl Records,
    held: Held,
    response: &StoredResponse,
    keep: Duration,
) -> Result<bool, StoreError> {
    let change = Change::Complete(response, keep);
    let stored = records.replace(held.id, Version::held(held), change).await?;
    Ok(stored.is_some())
}

/// Gives the key back, if it is still the holder's.
pub(super) async fn release(records: &mut impl Records, held: Held) -> Result<(), StoreError> {
    let change = Change::Lock(Duration::ZERO);
    records.replace(held.id, Version::held(held), change).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
