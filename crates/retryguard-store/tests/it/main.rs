//! The store's tests on real backends.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where it unwraps; helpers of tests are not known to clippy as such"
)]

mod breaker;
mod clock;
mod consumer;
mod history;
mod idempotency;
mod inbox;
mod outbox;
mod proxy;
mod servers;
mod sqlite;
