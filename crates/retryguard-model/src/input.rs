//! Models and properties as they are given.

use std::collections::BTreeMap;

use crate::elaborate::{Scope, Value};
use crate::error::{Error, SEPARATOR};
use crate::syntax::{ast, parse_model, parse_properties};

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) tree: ast::Model,
}

/// Properties that were read.
#[derive(Clone, Debug)]
pub struct Properties {
    pub(crate) file: ast::PropertyFile,
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

    /// Reads properties, one or many. Those that cannot be read are kept with their errors: [`check_each`](crate::check_each) reports them among the answers.
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

/// Every constant must have a value, as PRISM asks, also one that nothing uses.
pub(crate) fn open_constant(
    model: &ast::Model,
    file: &ast::PropertyFile,
    scope: &Scope<'_>,
) -> Result<(), Error> {
    for constant in model.constants.iter().chain(&file.constants) {
        if constant.value.is_none() && !scope.has_value(&constant.name.text) {
            return Err(Error::OpenConstant {
                name: constant.name.text.clone(),
            });
        }
    }
    Ok(())
}
