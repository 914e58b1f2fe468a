//! From a model and its properties to answers.

use std::collections::BTreeMap;

use crate::build::{Wanted, build};
use crate::chain::Chain;
use crate::elaborate::properties::resolve;
use crate::elaborate::{Scope, Value, elaborate};
use crate::error::{Error, SEPARATOR};
use crate::export::Which;
use crate::options::Options;
use crate::program::Program;
use crate::reduce::Reduction;
use crate::session::Session;
use crate::syntax::{ast, parse_model, parse_properties};

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    tree: ast::Model,
}

/// Properties that were read.
#[derive(Clone, Debug)]
pub struct Properties {
    file: ast::PropertyFile,
}

/// Values for the constants that a model leaves open.
pub type Constants = BTreeMap<String, Value>;

impl Model {
    /// Reads a model in the PRISM language.
    pub fn parse(text: &str) -> Result<Model, Error> {
        Ok(Model {
            tree: parse_model(text)?,
        })
    }

    /// The constants that need a value, in the order of the text.
    pub fn open_constants(&self) -> Vec<&str> {
        self.tree
            .constants
            .iter()
            .filter(|constant| constant.value.is_none())
            .map(|constant| constant.name.text.as_str())
            .collect()
    }
}

impl Properties {
    /// Reads properties, one or many.
    pub fn parse(text: &str) -> Result<Properties, Error> {
        let file = parse_properties(text).map_err(Error::in_properties)?;
        Ok(Properties { file })
    }

    /// Reads properties from several texts, each with the name by which [`Error::render_among`] calls it. They share one scope.
    pub fn parse_among(texts: &[(&str, &str)]) -> Result<Properties, Error> {
        let all: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
        Properties::parse(&all.join(SEPARATOR))
    }

    /// The number of properties.
    pub fn len(&self) -> usize {
        self.file.properties.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.file.properties.is_empty()
    }

    /// The constants of the property file that need a value.
    pub fn open_constants(&self) -> Vec<&str> {
        self.file
            .constants
            .iter()
            .filter(|constant| constant.value.is_none())
            .map(|constant| constant.name.text.as_str())
            .collect()
    }
}

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
}

/// What a property came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A number, infinite for a reward that has no bound.
    Number(f64),
    /// The least and the largest of the initial states, where there are several that differ.
    Range(f64, f64),
    /// A number known to lie between two others, the larger of them perhaps infinite: the space was truncated.
    Between(f64, f64),
    /// A yes or a no, in every initial state.
    Truth(bool),
}

impl Outcome {
    /// The number, or the middle of the two that enclose it. A lower bound alone is no number: whoever took it for one would
    /// be wrong by nobody knows how much.
    pub fn number(&self) -> Option<f64> {
        match self {
            Outcome::Number(value) => Some(*value),
            Outcome::Between(low, high) if high.is_finite() => Some(low + (high - low) / 2.0),
            Outcome::Between(..) | Outcome::Range(..) | Outcome::Truth(_) => None,
        }
    }
}

/// Answers `properties` about `model` with the given values of its open constants.
pub fn check(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Answer>, Error> {
    let (program, scope) = elaborate(&model.tree, &properties.file, constants)?;
    open_constant(&model.tree, &properties.file, &scope)?;
    let mut questions = Vec::new();
    for property in &properties.file.properties {
        let formula = resolve(&scope, &program, &properties.file.properties, property)?;
        questions.push((property, formula));
    }
    Session {
        program: &program,
        options,
    }
    .answer(&questions)
}

/// The chain with every label and every reward structure, for others to read, and what was reduced in words.
pub(crate) fn whole_chain(
    model: &Model,
    constants: &Constants,
    options: &Options,
    which: Which,
) -> Result<(Program, Chain, Vec<String>), Error> {
    let file = ast::PropertyFile::default();
    let (program, scope) = elaborate(&model.tree, &file, constants)?;
    open_constant(&model.tree, &file, &scope)?;
    let wanted = Wanted {
        rewards: (0..program.rewards.len()).collect(),
        conditions: program
            .labels
            .iter()
            .map(|(_, condition)| condition.clone())
            .collect(),
        stop: None,
        valuations: true,
    };
    let reduction = match which {
        Which::Written => Reduction::default(),
        Which::Reduced => Reduction::without_levels(&program, &wanted),
    };
    let chain = build(&program, &wanted, &reduction, options)?;
    Ok((program, chain, reduction.notes))
}

/// Every constant must have a value, as PRISM asks, also one that nothing uses.
fn open_constant(model: &ast::Model, file: &ast::PropertyFile, scope: &Scope<'_>) -> Result<(), Error> {
    for constant in model.constants.iter().chain(&file.constants) {
        if constant.value.is_none() && !scope.has_value(&constant.name.text) {
            return Err(Error::OpenConstant {
                name: constant.name.text.clone(),
            });
        }
    }
    Ok(())
}
