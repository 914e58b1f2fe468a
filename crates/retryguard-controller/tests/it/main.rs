//! The controller from the outside.

#[cfg(feature = "aws")]
mod aws;
mod certificates;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod elections;
#[cfg(feature = "envoy")]
mod envoy;
// It shares its clients and its controller with the tests of Envoy.
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
