//! The controller from the outside.

#[cfg(feature = "envoy")]
mod envoy;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod scripted;
mod trouble;
