//! The outbox on every backend that it has.

pub(crate) mod backends;
mod batches;
mod conformance;
mod kill;
mod outage;
mod postgres;
mod telemetry;
mod worker;
