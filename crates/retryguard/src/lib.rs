//! RetryGuard for Rust services: add one crate and one policy file, and the service no longer takes part in
//! a retry storm, neither as a client nor as a server.

pub mod client;
mod clock;
pub mod context;
mod error;
mod handle;
pub mod http;
pub mod protocol;
pub mod server;
mod shared;
pub mod telemetry;

pub use client::{RetryGuard, RetryGuardLayer};
pub use context::Context;
pub use error::Error;
pub use handle::{TargetHandle, TargetStatus};
pub use protocol::Report;
pub use retryguard_core::{Criticality, Refusal};
pub use retryguard_policy::Policy;
