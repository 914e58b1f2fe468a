//! The controller from the outside.

#[cfg(feature = "aws")]
mod aws;
mod certificates;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod elections;
#[cfg(feature = "envoy")]
mod envoy;
// They share their clients and their controller with the tests of Envoy.
#[cfg(feature = "envoy")]
mod grpc_xds;
#[cfg(feature = "envoy")]
mod haproxy;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod layers;
mod logged;
mod operator;
mod scripted;
#[cfg(all(
    feature = "envoy",
    feature = "kubernetes",
    feature = "postgres",
    feature = "redis"
))]
mod shards;
mod sources;
mod trouble;
