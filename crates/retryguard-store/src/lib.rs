//! Effects exactly once: idempotency keys, the outbox and shared breaker state, embedded and on real servers.
//!
//! A retry is only safe where the work is idempotent. This crate makes it so:
//!
//! - [`idempotency`]: a layer for axum and tower servers. A request that carries an `Idempotency-Key` is worked
//!   on once; its duplicates get the stored response.
//! - [`outbox`]: events that are written in the caller's own transaction and published afterwards, at least once
//!   and in order.
//! - [`inbox`]: how a consumer recognises repeated deliveries, so that each event counts once.
//! - [`breaker`]: replicas that agree that a target is down.
//!
//! Backends: memory always; SQLite with the feature `sqlite` (the default), `postgres` and `redis` with theirs.
//! `docs/store.md` says which to choose, and what is promised under which failure.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod breaker;
mod clean_up;
mod clock;
mod error;
pub mod idempotency;
pub mod inbox;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod migrations;
pub mod outbox;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod statement;

#[cfg(feature = "redis")]
pub use breaker::Settings as SharedBreakerSettings;
pub use error::{Backend, Cause, StoreError};
pub use outbox::Settings as OutboxSettings;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use statement::{Statement, Value};
