//! Idempotency keys.

mod backends;
mod client;
mod clocks;
mod conformance;
mod faults;
mod full;
mod histories;
mod isolation;
mod kills;
mod layer;
mod outages;
mod payments;
mod processes;
mod race;
mod redis;
mod round_trips;
mod together;
mod transactions;

pub(crate) use payments::sqlite_pool;
