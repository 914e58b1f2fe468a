//! The world: sources of counts, actuators on data planes, leader election, HTTP.

pub mod actuator;
#[cfg(feature = "aws")]
pub mod aws;
mod causes;
pub mod election;
pub mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub(crate) mod of_shard;
pub mod recording;
pub mod source;
pub mod start_error;
pub mod terminal;
