//! Real Envoys under the two actuators.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admin;
mod controller;
mod deploy;
mod fleet;
mod hostile;
mod killed;
mod rtds;
mod storm;
mod world;
