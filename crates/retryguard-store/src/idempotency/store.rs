//! What a store of idempotency keys must do.

use std::{fmt, future::ready, pin::Pin, time::Duration};

use super::{Fingerprint, KeyId, StoredResponse, machine::Open};
use crate::{Backend, StoreError};

/// The answer of a store. Boxed, so that one server can choose its store when it starts; beside a round trip to
/// a database the allocation is not seen.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A wish to work on a request.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The key, scoped by principal and route.
    pub id: KeyId,
    /// The request.
    pub fingerprint: Fingerprint,
    /// How long no other request may work on it.
    pub lock: Duration,
    /// How long the key is remembered.
    pub keep: Duration,
}

/// How a key stands.
#[derive(Debug, Clone)]
pub enum Standing {
    /// The caller holds it now and must complete or release it.
    Yours(Held),
    /// Another holds it, for this long at most.
    Busy(Duration),
    /// It was completed with this response.
    Done(StoredResponse),
    /// It was used for another request.
    OtherRequest,
    /// No request holds it; only [`IdempotencyStore::look`] answers this.
    Open(Open),
}

/// A key that is held, and the fencing token that tells its holder from those before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The key.
    pub id: KeyId,
    /// Grows with every claim of the key.
    pub token: i64,
}

/// Where idempotency keys are kept.
///
/// Every method is one atomic step: two callers that claim one key at the same moment, in two processes, get one
/// [`Standing::Yours`]. Methods may be called again after an error whose outcome is unknown. Dropping a future
/// may or may not have the effect. Nothing here waits for long: the layer bounds each call.
pub trait IdempotencyStore: Send + Sync + fmt::Debug + 'static {
    /// Which backend it is, for messages and metrics.
    fn backend(&self) -> Backend;

    /// Claims a key that is new, or was released, or whose holder's time has run out, or that is no longer
    /// remembered; says how it stands otherwise.
    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing>;

    /// Stores the response, if the key is still the caller's: false where it is not, and then nothing is done.
    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Lets others claim the key at once, if it is still the caller's and not completed.
    fn release(&self, held: Held) -> StoreFuture<'_, ()>;

    /// Says how a key stands and claims nothing: the key is claimed and completed by one statement in the transaction
    /// of the effect.
    fn look(&self, _asked: Asked) -> StoreFuture<'_, Standing> {
        let backend = self.backend();
        Box::pin(ready(Err(no_transactions(backend))))
    }

    /// Stores a response for a key that was seen open; false where another request was faster.
    fn store<'a>(
        &'a self,
        _open: &'a Open,
        _response: &'a StoredResponse,
        _keep: Duration,
    ) -> StoreFuture<'a, bool> {
        let backend = self.backend();
        Box::pin(ready(Err(no_transactions(backend))))
    }

    /// Forgets keys that are no longer kept, `limit` at most, and says how many.
    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64>;
}

pub(super) fn no_transactions(backend: Backend) -> StoreError {
    StoreError::Refused {
        backend,
        cause: "it has no transactions: `in_transaction` needs SQLite or PostgreSQL".into(),
    }
}

/// A span as databases have it.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
