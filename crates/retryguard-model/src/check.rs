//! From a model and its properties to answers.

use std::collections::BTreeMap;

use crate::build::{Wanted, build};
use crate::chain::Chain;
use crate::elaborate::properties::{Formula, resolve};
use crate::elaborate::{Scope, Value, elaborate};
use crate::error::{Error, SEPARATOR};
use crate::export::Which;
use crate::options::Options;
use crate::program::Program;
use crate::questions::Question;
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
    /// Reads properties, one or many. An error in one is an error of all.
    pub fn parse(text: &str) -> Result<Properties, Error> {
        let read = Properties::parse_each(text)?;
        match read.file.refused.into_iter().next() {
            Some((_, _, error)) => Err(error),
            None => Ok(Properties {
                file: ast::PropertyFile {
                    refused: Vec::new(),
                    ..read.file
                },
            }),
        }
    }

    /// Reads properties, one or many. Those that cannot be read are kept with their errors: [`check_each`] reports them among the answers.
    pub fn parse_each(text: &str) -> Result<Properties, Error> {
        let mut file = parse_properties(text).map_err(Error::in_properties)?;
        for (_, _, error) in &mut file.refused {
            *error = error.clone().in_properties();
        }
        Ok(Properties { file })
    }

    /// Reads properties from several texts, each with the name by which [`Error::render_among`] calls it. They share one scope.
    pub fn parse_among(texts: &[(&str, &str)]) -> Result<Properties, Error> {
        let all: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
        Properties::parse_each(&all.join(SEPARATOR))
    }

    /// The number of properties, those that could not be read among them.
    pub fn len(&self) -> usize {
        self.file.properties.len() + self.file.refused.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
    /// The states that a filter names (print, argmin …), each with its answer. The outcome is then their number.
    pub listed: Vec<(String, Value)>,
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
    /// The number, or the middle of the two that enclose it. `None` for a lower bound alone, because
    /// the true value may be larger by any amount.
    pub fn number(&self) -> Option<f64> {
        match self {
            Outcome::Number(value) => Some(*value),
            Outcome::Between(low, high) if high.is_finite() => Some(low + (high - low) / 2.0),
            Outcome::Between(..) | Outcome::Range(..) | Outcome::Truth(_) => None,
        }
    }
}

/// Answers `properties` about `model` with the given values of its open constants. The first property that is refused is the error.
pub fn check(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Answer>, Error> {
    let answers = check_each(model, properties, constants, options)?;
    answers
        .into_iter()
        .map(|answer| answer.map_err(|refused| refused.error))
        .collect()
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

/// Answers `properties` one by one: a property that is refused does not stop the others. An error of the model is the error of all.
pub fn check_each(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<Vec<Result<Answer, Refused>>, Error> {
    let file = &properties.file;
    let (program, scope) = elaborate(&model.tree, file, constants)?;
    open_constant(&model.tree, file, &scope)?;
    let resolved: Vec<Result<Formula, Error>> = file
        .properties
        .iter()
        .map(|property| resolve(&scope, &program, &file.properties, property))
        .collect();
    let questions: Vec<Question<'_>> = file
        .properties
        .iter()
        .zip(&resolved)
        .filter_map(|(property, formula)| Some((property, formula.as_ref().ok()?.clone())))
        .collect();
    let session = Session {
        program: &program,
        options,
    };
    let mut answers = match questions.is_empty() {
        true => Vec::new(),
        false => session.answer_each(&questions)?,
    }
    .into_iter();
    let mut all = Vec::with_capacity(properties.len());
    let mut unread = file.refused.iter().peekable();
    for (place, (property, formula)) in file.properties.iter().zip(resolved).enumerate() {
        while let Some((_, text, error)) = unread.next_if(|(before, _, _)| *before <= place) {
            all.push(Err(unreadable(text, error)));
        }
        let answer = match formula {
            Ok(_) => answers
                .next()
                .unwrap_or_else(|| unreachable!("every question has an answer")),
            Err(error) => Err(error),
        };
        all.push(answer.map_err(|error| Refused {
            name: property.name.clone(),
            property: property.text.clone(),
            error,
        }));
    }
    all.extend(unread.map(|(_, text, error)| Err(unreadable(text, error))));
    Ok(all)
}

fn unreadable(text: &str, error: &Error) -> Refused {
    Refused {
        name: None,
        property: text.to_owned(),
        error: error.clone(),
    }
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
        values: Vec::new(),
        stop: None,
        valuations: true,
    };
    let reduction = match which {
        Which::Written => Reduction::default(),
        Which::Reduced => Reduction::without_levels(&program, &wanted).exact(),
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
