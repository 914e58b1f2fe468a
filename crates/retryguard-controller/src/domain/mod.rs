//! Targets, their counts, the state that is desired of them, and the plan that leads there. No I/O, no clock.

pub mod counts;
pub mod gain;
pub mod limits;
pub mod plan;
pub(crate) mod rate_limit;
pub mod replay;
pub mod shard;
pub mod state;
pub mod target;
pub mod target_guard;
