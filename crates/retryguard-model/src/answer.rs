//! The answers to properties.

use crate::elaborate::Value;
use crate::error::Error;

/// The answer to one property.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The name of the property, if it has one.
    pub name: Option<String>,
    /// The property as written.
    pub property: String,
    /// The answer.
    pub outcome: Outcome,
    /// States of the chain that was solved.
    pub states: u64,
    /// Transitions of the chain that was solved.
    pub transitions: u64,
    /// Time to build the chain, which properties asked together share.
    pub build_seconds: f64,
    /// Time to solve, which properties answered together share.
    pub solve_seconds: f64,
    /// What was reduced, in words.
    pub notes: Vec<String>,
    /// The states that a filter names (print, argmin …), each with its answer. The outcome is then [`Outcome::States`].
    pub listed: Vec<(String, Value)>,
}

/// What a property came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A number, infinite for a reward that has no bound.
    Number(f64),
    /// The least and the largest: of the states of a filter, or of the initial states, where there are several that differ. A note says
    /// so for the initial states.
    Range(f64, f64),
    /// A number known to lie between two others, the larger of them perhaps infinite: the space was truncated.
    Between(f64, f64),
    /// A yes or a no, in every initial state.
    Truth(bool),
    /// So many states are [listed](Answer::listed).
    States(usize),
}

impl Outcome {
    /// The number, or the middle of the two that enclose it. `None` for a lower bound alone, because
    /// the true value may be larger by any amount.
    pub fn number(&self) -> Option<f64> {
        match self {
            Outcome::Number(value) => Some(*value),
            Outcome::Between(low, high) if high.is_finite() => Some(low + (high - low) / 2.0),
            Outcome::Between(..) | Outcome::Range(..) | Outcome::Truth(_) | Outcome::States(_) => None,
        }
    }
}

/// A property that was not answered, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The name of the property, if it has one.
    pub name: Option<String>,
    /// The property as written.
    pub property: String,
    /// Why it has no answer.
    pub error: Error,
}
