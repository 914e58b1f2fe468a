//! Idempotency keys: a request that carries one is worked on once.
