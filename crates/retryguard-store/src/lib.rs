//! Effects exactly once: idempotency keys, the outbox and shared breaker state, embedded and on real servers.
