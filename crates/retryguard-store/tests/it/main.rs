//! The store's tests on real backends.

mod idempotency;
