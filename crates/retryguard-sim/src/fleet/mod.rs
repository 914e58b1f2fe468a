//! Fleets of periodic clients: a request every period, for ever, and retries when it fails.
//!
//! A target with two hundred servers may have two billion devices. What they do to it is decided by a few lines of
//! client code: when a client starts, how it paces itself, how it retries. Here those lines are data
//! ([`Behaviour`]), and a [`Fleet`] that follows them is run in one of two ways:
//!
//! - [`individuals`]: one client after the other, with the very [`Schedule`](retryguard_core::schedule::Schedule)
//!   and [`Backoff`](retryguard_core::Backoff) that production uses. Clients of a fleet meet only at the target,
//!   and the target's failures here depend on time and chance alone, so no common event queue is needed.
//! - [`cohorts`]: clients in the same state are exchangeable, so they are carried as a count, and what happens to
//!   them is drawn for all at once. The cost does not depend on the number of clients.
//!
//! Both give a [`Series`] of the same distribution.

mod behaviour;
pub mod binomial;
mod claim;
pub mod cohorts;
pub mod individuals;
mod series;

#[cfg(test)]
mod tests;

pub use behaviour::{Behaviour, Failures, Fleet, Pace, Start};
pub use claim::{Claim, Verdict};
pub use series::{Bin, Series};
