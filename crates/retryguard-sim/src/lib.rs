//! The simulator: the machines of `retryguard-core` in a whole world.
//!
//! What is simulated is what will run: every call in here is driven through the very
//! [`Call`](retryguard_core::Call) and [`Target`](retryguard_core::Target) that production uses. Time is
//! simulated, and chance comes from [`streams`] that are keyed by seed, entity and purpose, so that two
//! policies get the same random numbers and the same seed gives the same bytes.

pub mod calibrate;
pub mod client_policy;
pub mod comparison;
pub mod contest;
pub mod distribution;
pub mod draw;
pub mod engine;
pub mod fleet;
pub mod kernel;
pub mod scenario;
pub mod statistics;
pub mod streams;
pub mod tournament;
pub mod world;
