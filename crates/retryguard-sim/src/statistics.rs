//! Numbers out of many: means over replications with their confidence, and quantiles of durations.

mod histogram;
mod interval;
mod proportion;

pub use histogram::Histogram;
pub use interval::{Estimate, Tally};
pub use proportion::Proportion;
