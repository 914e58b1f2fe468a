//! HTTP in both directions: our ports with their limits, and bounded requests to others.

pub(crate) mod connections;
mod fetch;
mod port;
pub mod status_client;
pub mod status_page;
mod tls;

pub use connections::raise_descriptor_limit;
pub(crate) use fetch::{Access, Fetch, excerpt, shown};
pub use port::Port;
#[cfg(feature = "envoy")]
pub(crate) use port::warn_if_exposed;
pub(crate) use port::{guarded, serve};
#[cfg(feature = "envoy")]
pub(crate) use tls::pem;
pub(crate) use tls::server_config;
