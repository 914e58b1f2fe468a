//! RetryGuard for Rust services: add one crate and one policy file, and the service no longer takes part in
//! a retry storm, neither as a client nor as a server.
//!
//! - Any asynchronous function: [`call`].
//! - A client: [`RetryGuardLayer`] around any tower service, [`http::HttpLayer`] for HTTP and gRPC,
//!   `reqwest::Client` and `tonic::TonicLayer` behind features of these names.
//! - A server: [`server::ServerLayer`], for axum or any tower HTTP server.
//! - A policy that changes while running: [`remote::LivePolicy`].
//! - Periodic work: [`Periodic`].
//! - Single patterns: [`patterns`]. Fallback values: [`FallbackLayer`].
//!
//! The decisions are made by the pure machines of `retryguard-core`; this crate moves effects between them
//! and tokio.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod client;
mod clock;
pub mod context;
mod error;
mod fallback;
mod handle;
pub mod http;
pub mod patterns;
mod periodic;
pub mod protocol;
pub mod remote;
#[cfg(feature = "reqwest")]
pub mod reqwest;
pub mod server;
mod shared;
mod sync;
pub mod telemetry;
#[cfg(all(test, shuttle))]
mod threads;
#[cfg(feature = "tonic")]
pub mod tonic;

pub use client::{CallBuilder, RetryGuard, RetryGuardLayer, call, target};
pub use context::Context;
pub use error::{BoxError, BoxedError, Error};
pub use fallback::{Fallback, FallbackFuture, FallbackLayer};
pub use handle::{TargetHandle, TargetStatus};
pub use periodic::Periodic;
pub use protocol::Report;
pub use retryguard_core as core;
pub use retryguard_core::{Criticality, Refusal};
pub use retryguard_policy::{Diagnostics, Policy, Trust};
