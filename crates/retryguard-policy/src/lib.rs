//! The policy file of RetryGuard.
//!
//! A policy goes through three forms. *Written* is what the file says, key by key, each with its place in the
//! file. *Checked* is the same without a mistake left in it; all mistakes are reported at once, each with its line.
//! *Compiled* is what the machines of `retryguard-core` are built from, and nothing of the file is left in it.
//!
//! - [`Policy`]: parse and use a policy. [`PolicyBuilder`]: the same from code.
//! - [`Classifier`]: HTTP, gRPC and network signals to outcomes.
//! - [`lint`]: what a policy says without a mistake and should not say all the same.
//! - [`explain`]: lint codes, keys and terms in words. [`Draft`]: a commented policy to begin with.
//! - [`reading`]: the reader itself, for other files of ours.
//! - [`schema`], [`lint_reference`], [`key_reference`]: the generated pages.

mod builder;
mod classifier;
mod compile;
mod diagnostics;
mod digest;
mod draft;
pub mod explain;
mod kind;
mod lint;
mod policy;
pub mod reading;
mod reference;
mod written;
mod yaml;

pub use builder::{PolicyBuilder, ServiceKeys, UnknownService, Value};
pub use classifier::{Classifier, NetworkError};
pub use diagnostics::{Diagnostic, Diagnostics, Position};
pub use draft::Draft;
pub use lint::{Allowed, Code, Finding, Report, Severity, lint, lint_codes};
pub use policy::{Idempotency, Policy, Service, Trust};
pub use reference::{key_reference, lint_reference, schema};
pub use yaml::{DEEPEST_NESTING, LARGEST_FILE};

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
