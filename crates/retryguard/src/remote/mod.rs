//! A policy that changes while the program runs.
//!
//! A [`LivePolicy`] makes layers and keeps them up to date: from a file (also one that is swapped by a
//! symbolic link, as Kubernetes does with a mounted ConfigMap), or, with the feature `reqwest`, from an HTTP
//! address. Breakers, budgets and guards keep their state through a change. A new policy that cannot be read
//! or is wrong is refused loudly, and the last good one stays.

mod file;
#[cfg(feature = "reqwest")]
mod http;
mod live;

#[cfg(feature = "reqwest")]
pub use http::PolicyServer;
pub use live::{LivePolicy, RemoteError};
