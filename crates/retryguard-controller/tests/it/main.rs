//! The controller from the outside.

#[cfg(feature = "aws")]
mod aws;
mod certificates;
#[cfg(feature = "envoy")]
mod envoy;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod leads;
mod logged;
mod operator;
mod scripted;
mod sources;
mod trouble;
