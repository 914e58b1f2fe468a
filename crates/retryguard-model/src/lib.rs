//! An independent check of retry policies. It shares no code with the machines that it checks.
//!
//! A model checker for continuous-time Markov chains in the PRISM language: [`Model::parse`] reads a model,
//! [`Properties::parse`] reads what is asked, [`check`] answers. Chains are built explicitly, after reductions that are found
//! in the text of the model and change no answer.

mod answer;
mod build;
mod chain;
mod check;
mod clock;
pub mod closed_forms;
mod drift;
mod elaborate;
mod error;
mod evaluate;
mod export;
mod expr;
mod filter;
mod input;
mod options;
mod path_reward;
mod program;
mod questions;
mod reduce;
mod session;
mod solve;
mod some_path;
mod source;
mod split;
pub mod sweep;
mod syntax;
mod truncated;
mod values;
mod wanted;

pub use answer::{Answer, Outcome, Refused};
pub use check::{check, check_each};
pub use elaborate::Value;
pub use error::{Error, File};
pub use export::{Format, Which, export};
pub use input::{Constants, Model, Properties};
pub use options::Options;
pub use source::Span;

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
