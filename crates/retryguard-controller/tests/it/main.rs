//! The controller from the outside.

#[cfg(feature = "envoy")]
mod envoy;
mod scripted;
mod trouble;
