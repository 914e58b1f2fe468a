//! The reconciler, the loop that drives it, and the traits of what it drives.

pub mod actuator;
pub(crate) mod balance;
pub mod control_loop;
pub mod election;
pub mod reconciler;
pub mod shards;
pub mod source;
