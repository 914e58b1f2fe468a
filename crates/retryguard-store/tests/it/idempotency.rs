//! Idempotency keys.

mod layer;
