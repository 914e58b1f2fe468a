//! Numbers out of many: means over replications with their confidence, and quantiles of durations.

mod histogram;
mod interval;

pub use histogram::Histogram;
pub use interval::{Estimate, Tally};
