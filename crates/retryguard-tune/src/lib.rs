//! From a policy to a model, and from a model to better parameters.
//!
//! [`lower()`] turns the settings of one service into a continuous-time Markov chain with three questions: how long the client needs
//! in total, for how long it holds the network, and how much of that ends in failures. [`Lowered::costs`] answers them in seconds,
//! [`Lowered::influences`] says which assumption they depend on most. [`Search`] tries other parameters and keeps those with the least contention
//! for at most so much more time. [`Report`] and [`answers`] write results down; [`Prediction`] is the same question answered by closed
//! forms. [`ModelledService`] and [`ModelFile`] are what the command line describes. [`world::improve`] tries parameters in a simulated world instead.

pub mod answers;
mod breaker;
mod costs;
mod influence;
mod linted;
mod lower;
mod model_file;
mod picture;
mod prediction;
mod report;
mod result;
mod retries;
mod search;
mod service;
pub mod world;

pub use costs::{CALLS, Costs};
pub use influence::Influence;
pub use linted::LintedService;
pub use lower::{Lowered, Pattern, Row, lower};
pub use model_file::{ModelFile, ModelFileError, Solved};
pub use prediction::Prediction;
pub use report::Report;
pub use search::{Candidate, Found, Search, more};
pub use service::{ModelledService, ServiceError};

/// Why a policy has no model, or a model no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither the caller nor the policy says how fast the target answers.
    #[error("the policy has no attempt timeout to take the response time from: give --response-time")]
    NoResponseTime,
    /// The response time is not above zero.
    #[error("the response time must be positive: give --response-time, such as 50ms")]
    ResponseTime,
    /// The breaker was asked for.
    #[error("the policy has no breaker for this service")]
    NoBreaker,
    /// The chain would have too many states.
    #[error("a breaker that needs {0} failures is too large for the model")]
    BreakerTooLarge(u32),
    /// The model checker gave no number.
    #[error("the model of this policy is too large to solve: allow fewer retries, or fewer failures")]
    TooLarge,
    /// What the model checker says.
    #[error("{0}")]
    Model(String),
    /// The search decides a constant that the model does not have.
    #[error("the model has no constant {0}")]
    NoConstant(String),
    /// No candidate keeps to the time.
    #[error(
        "no setting that passes `retryguard lint` stays within {allowed} % more time: the quickest of all takes {least:.1} % more, give more than that with --more-time"
    )]
    NothingWithin {
        /// What was allowed, in percent.
        allowed: f64,
        /// What the quickest takes, in percent.
        least: f64,
    },
}
