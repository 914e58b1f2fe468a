//! The outbox: events written in the caller's own transaction, published at least once and in order per key.
