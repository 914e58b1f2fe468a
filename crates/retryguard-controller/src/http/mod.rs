//! HTTP in both directions: our ports with their limits, and bounded requests to others.

pub(crate) mod connections;
mod fetch;
mod port;
mod tls;

pub(crate) use fetch::{Access, Fetch, excerpt, shown};
pub use connections::raise_descriptor_limit;
pub use port::Port;
pub(crate) use port::{guarded, serve, warn_if_exposed};
pub(crate) use tls::server_config;
