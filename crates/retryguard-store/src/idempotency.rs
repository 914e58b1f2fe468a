//! Idempotency keys: a request that carries one is worked on once, and its duplicates get the stored response.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn serve() -> Result<(), retryguard_store::StoreError> {
//! use axum::{Router, routing::post};
//! use retryguard_store::idempotency::{IdempotencyLayer, SqliteStore};
//!
//! let store = SqliteStore::open("payments.db").await?;
//! let app: Router = Router::new()
//!     .route("/payments", post(async || "paid"))
//!     .layer(IdempotencyLayer::new(store));
//! # Ok(())
//! # }
//! ```
//!
//! # What a client sees
//!
//! The header is `Idempotency-Key` after the IETF draft: a quoted string, `Idempotency-Key: "8e03978e-40d5"`.
//!
//! | request | answer |
//! | --- | --- |
//! | a new key | the handler's response; final ones are stored for 24 h |
//! | the same key and the same request | the stored response with `Idempotency-Replayed: true` |
//! | the same key and another body or query | 422 (or as chosen); nothing is done |
//! | the same key while the first is worked on | waits for it, bounded; then 409 with `Retry-After` |
//! | no key where one is required, or a malformed one | 400 |
//! | the store is away, slow or full | 503 with `Retry-After`, or unguarded, as chosen |
//!
//! Every answer of the layer's own is `application/problem+json` and carries a `Link` to the documentation where
//! one is set.
//!
//! # Which responses are stored
//!
//! Those that a retry would not change: every status but 408, 425, 429 and 5xx. The same rule makes a client
//! under a policy retry: what its classifier calls retryable is never stored, and the key is free again at once.
//!
//! # What is promised
//!
//! *One effect at a time*: while a claim lives (30 s, see [`IdempotencyLayer::lock`]) no other request works on its
//! key, in any process on the same store.
//!
//! *Exactly one effect, even when the process is killed*: only where effect and record are one transaction. The
//! layer alone cannot do that: a process that dies between the handler's commit and the layer's record leaves an
//! effect that no record tells of, and the next retry does it again. So the handler takes the [`Claim`] from the
//! request's extensions and completes it in its own transaction with [`Claim::commit`] or [`Claim::complete_in`] (SQLite
//! and PostgreSQL). Where the effect is elsewhere, use [`Claim::id`] as a unique key there.
//!
//! A client that goes away does not stop the work: it runs to its end, its response is stored, and the retry
//! gets it. Requests and responses of gRPC are passed through: their status comes after the body.

mod body;
mod claim;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod columns;
mod future;
mod guarded;
mod in_flight;
mod key;
mod layer;
mod machine;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod problem;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod service;
mod settings;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod sweep;
mod telemetry;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod transactional;

pub use body::IdempotencyBody;
pub use claim::Claim;
pub use future::IdempotencyFuture;
pub use key::{IDEMPOTENCY_KEY, MalformedKey, read_key};
pub use layer::IdempotencyLayer;
pub use machine::Open;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use record::{Fingerprint, KeyId, StoredResponse};
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use service::{IDEMPOTENCY_REPLAYED, Idempotency};
pub use settings::{OnStoreFailure, is_final};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::{Asked, Held, IdempotencyStore, Standing, StoreFuture};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use transactional::{CommittingDatabase, Completion, Transactional};
