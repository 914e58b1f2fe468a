//! Watches services in any language and switches their retries off while they do harm.
//!
//! A [`source::Source`] says what happened to each target in the last interval, a guard per target
//! (`retryguard_core::guard`) decides, the plan compares what is wanted with what the data plane has, and an
//! [`actuator::Actuator`] brings the two together. Nothing of it is on the path of a request.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod actuator;
pub mod ask;
#[cfg(feature = "aws")]
pub mod aws;
pub mod board;
mod cap;
mod causes;
pub mod clock;
pub mod config;
pub mod counts;
pub mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod lead;
pub mod plan;
pub mod run;
pub mod secret;
pub mod serve;
pub mod source;
pub mod start;
pub mod target;
pub mod watch;
