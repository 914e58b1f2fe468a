//! The outbox on every backend that it has.

mod backends;
mod conformance;
mod worker;
