//! The controller from the outside.

#[cfg(feature = "aws")]
mod aws;
mod certificates;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod elections;
#[cfg(feature = "envoy")]
mod envoy;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod layers;
mod logged;
mod operator;
mod scripted;
mod sources;
mod trouble;
