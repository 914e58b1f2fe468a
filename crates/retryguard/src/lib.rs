//! RetryGuard for Rust services: add one crate and one policy file, and the service no longer takes part in
//! a retry storm, neither as a client nor as a server.
//!
//! # A function
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard::Policy;
//!
//! let policy = Policy::parse("services: { stock: { maxRetries: 1, deadline: 2s } }")?;
//! let stock = retryguard::target(&policy, "stock");
//! let answer = retryguard::call(&stock, || async { Ok::<_, std::io::Error>(7) }).await?;
//! assert_eq!(answer, 7);
//! # Ok(())
//! # }
//! ```
//!
//! # An HTTP client of tower
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use retryguard::{Policy, Report, for_http::{HttpLayer, ReplayBody}};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! // In a program: hyper-util's client.
//! let client = service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//!     Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from("here")))
//! });
//! let service = HttpLayer::new(&Policy::default(), "stock").layer(client);
//! let response = service.oneshot(Request::new(Full::default())).await?;
//! assert_eq!(Report::of(response.extensions()).attempts, 1);
//! # Ok(())
//! # }
//! ```
//!
//! `for_reqwest::Client` and `for_tonic::TonicLayer` are the same around these clients.
//!
//! # A server
//!
//! ```
//! use axum::{Router, routing::get};
//! use retryguard::{Policy, server::ServerLayer};
//!
//! let policy = Policy::parse("services: { shop: { server: { inFlight: 100 } } }").unwrap();
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "here" }))
//!     .layer(ServerLayer::new(&policy, "shop"));
//! ```
//!
//! # Errors
//!
//! A failed *response* is returned as the response that it is, after whatever retries were allowed; [`Report::of`] says how it
//! came about. Without a response there is an [`Error`], which says which part refused and how long to stay away:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use retryguard::{Error, Policy, Refusal};
//!
//! let policy = Policy::parse("services: { stock: { maxRetries: 0 } }").unwrap();
//! let stock = retryguard::target(&policy, "stock");
//! let down = || async { Err::<(), _>(std::io::Error::other("down")) };
//! match retryguard::call(&stock, down).await {
//!     Ok(()) => {}
//!     Err(Error::Failed { error, refusal: Refusal::AttemptsUsed, .. }) => assert_eq!(error.to_string(), "down"),
//!     Err(other) => panic!("{other}, come back in {:?}", other.retry_after()),
//! }
//! # }
//! ```
//!
//! # Testing
//!
//! All waits are tokio's. Under `#[tokio::test(start_paused = true)]` (tokio's feature `test-util`) back-offs, deadlines and open
//! breakers pass at once, and in order:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # use retryguard::{Error, Policy};
//! let policy = Policy::parse("services: { stock: { deadline: 1h } }").unwrap();
//! let stock = retryguard::target(&policy, "stock");
//! let silent = std::future::pending::<Result<(), std::io::Error>>;
//! // An hour passes.
//! let error = retryguard::call(&stock, silent).await.unwrap_err();
//! assert!(matches!(error, Error::TimedOut { .. }));
//! # }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `hyper` (default) | reads the errors of hyper, hyper-util and h2 by type |
//! | `reqwest` | `for_reqwest::Client`, and policies over HTTP |
//! | `rustls` | TLS for reqwest: rustls with its default cryptography and the system's certificates |
//! | `rustls-no-provider` | the same, with a provider of cryptography that the program installs |
//! | `tonic` | `for_tonic::TonicLayer` |
//!
//! # Everything
//!
//! - Any asynchronous function: [`call`].
//! - A client: [`RetryGuardLayer`] around any tower service, [`for_http::HttpLayer`] for HTTP and gRPC,
//!   `for_reqwest::Client` and `for_tonic::TonicLayer` behind the features `reqwest` and `tonic`.
//! - Several endpoints of one service: [`endpoints::Endpoints`], [`for_http::HttpEndpoints`], `for_reqwest::Client::with_endpoints`.
//! - A server: [`server::ServerLayer`], for axum or any tower HTTP server.
//! - A policy that changes while running: [`remote::LivePolicy`].
//! - Periodic work: [`Periodic`].
//! - Single patterns, a rate limiter included: [`patterns`]. Fallback values: [`FallbackLayer`].
//! - A policy from code: [`Policy::builder`]. Rules of one request: [`for_http::tags::Tags`].
//! - Every attempt, retry and refusal as an event: [`TargetHandle::observe_calls`]. The attempts that failed: [`Error::history`].
//! - One's own delays: [`TargetHandle::back_off_by`]. One's own reading of responses: [`for_http::Http::responses_read_by`].
//!
//! The decisions are made by the pure machines of `retryguard-core`; this crate moves effects between them
//! and tokio.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod boxed;
pub mod client;
mod clock;
pub mod context;
pub mod endpoints;
mod error;
mod fallback;
pub mod for_http;
#[cfg(feature = "reqwest")]
pub mod for_reqwest;
#[cfg(feature = "tonic")]
pub mod for_tonic;
mod handle;
mod observer;
pub mod patterns;
mod periodic;
pub mod protocol;
mod rate;
pub mod remote;
pub mod server;
mod shared;
mod sync;
pub mod telemetry;
#[cfg(all(test, shuttle))]
mod threads;
#[cfg(feature = "reqwest")]
mod tls;

pub use boxed::{BoxErrors, BoxErrorsFuture, BoxErrorsLayer};
pub use client::{CallBuilder, RetryGuard, RetryGuardLayer, call, target};
pub use context::Context;
pub use error::{BoxError, BoxedError, Error};
pub use fallback::{Fallback, FallbackFuture, FallbackLayer};
pub use handle::{TargetHandle, TargetStatus};
pub use observer::{CallEvent, CallObserver, FailedAttempt};
pub use periodic::Periodic;
pub use protocol::Report;
pub use retryguard_core as machines;
pub use retryguard_core::{Criticality, Failure, FailureKind, Outcome, Refusal};
pub use retryguard_policy::{
    self as policy, Classifier, Diagnostics, Idempotency, NetworkError, Policy, PolicyBuilder, Service,
    ServiceKeys, Trust, UnknownService,
};
