//! Real Envoys under the two actuators.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admin;
pub(crate) mod controller;
mod deploy;
mod faults;
mod fleet;
mod hostile;
mod killed;
mod rtds;
mod storm;
pub(crate) mod world;
