//! Idempotency keys.

mod backends;
mod client;
mod conformance;
mod full;
mod kills;
mod layer;
mod outages;
mod payments;
mod processes;
mod race;
mod transactions;
