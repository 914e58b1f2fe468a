//! Idempotency keys.

mod backends;
mod conformance;
mod layer;
