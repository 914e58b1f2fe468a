//! A model file: read, solved for every instance of its constants, exported.

use std::{io, path::Path};

use rayon::prelude::*;
use retryguard_model::{Constants, Format, Model, Options, Properties, Which};

use crate::{Row, answers};

/// A model in the PRISM language, as it stands in a file.
pub struct ModelFile {
    name: String,
    text: String,
    model: Model,
}

/// Answers, and why other properties have none.
pub struct Solved {
    /// The answers.
    pub rows: Vec<Row>,
    /// A message for each property without an answer.
    pub unanswered: Vec<String>,
}

/// Why a model has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// The file cannot be read.
    #[error("cannot read the model {0}")]
    Unreadable(String, #[source] io::Error),
    /// No property is given.
    #[error("nothing is asked: give --prop 'P=? [ F … ]' or --props FILE")]
    NothingAsked,
    /// A constant is given wrongly, or not at all.
    #[error("{0}")]
    Constant(String),
    /// The model or a property has a mistake, or a limit is reached.
    #[error("{0}")]
    Model(String),
}

impl ModelFileError {
    /// Whether the user has to give something else, whatever the model says.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Model(_))
    }

    fn of(error: &retryguard_model::Error, message: String) -> Self {
        use retryguard_model::Error::{GivenConstant, OpenConstant};
        match error {
            GivenConstant { .. } | OpenConstant { .. } => Self::Constant(message),
            _ => Self::Model(message),
        }
    }
}

impl ModelFile {
    /// Reads a model.
    ///
    /// # Errors
    /// Where the file cannot be read or has a mistake.
    pub fn read(path: &Path) -> Result<Self, ModelFileError> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| ModelFileError::Unreadable(name.clone(), error))?;
        let model =
            Model::parse(&text).map_err(|error| ModelFileError::Model(error.render(&name, &text, "")))?;
        Ok(Self { name, text, model })
    }

    /// The chain of one instance in another tool's format.
    ///
    /// # Errors
    /// Where the chain cannot be built.
    pub fn export(
        &self,
        constants: &Constants,
        options: &Options,
        format: Format,
        which: Which,
    ) -> Result<String, ModelFileError> {
        retryguard_model::export(&self.model, constants, options, format, which)
            .map_err(|error| ModelFileError::of(&error, error.render(&self.name, &self.text, "")))
    }

    /// Answers properties for every instance. `asked` are their names in messages and their texts. A property that is refused does not
    /// stop the others.
    ///
    /// # Errors
    /// Where a property has a mistake or a chain cannot be built.
    pub fn solve(
        &self,
        asked: &[(String, String)],
        instances: &[Constants],
        options: &Options,
    ) -> Result<Solved, ModelFileError> {
        let asked: Vec<(&str, &str)> = asked
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let message = |error: &retryguard_model::Error| error.render_among(&self.name, &self.text, &asked);
        let properties =
            Properties::parse_among(&asked).map_err(|error| ModelFileError::of(&error, message(&error)))?;
        if properties.is_empty() {
            return Err(ModelFileError::NothingAsked);
        }
        let results: Vec<_> = instances
            .par_iter()
            .map(|constants| answers::rows(&self.model, &properties, constants, options))
            .collect();
        let mut solved = Solved {
            rows: Vec::new(),
            unanswered: Vec::new(),
        };
        for (result, constants) in results.into_iter().zip(instances) {
            let placed = |error: &retryguard_model::Error| match instances.len() {
                1 => message(error),
                _ => format!("with {}: {}", answers::constants_text(constants), message(error)),
            };
            let (answered, refused) = result.map_err(|error| ModelFileError::of(&error, placed(&error)))?;
            solved.rows.extend(answered);
            solved
                .unanswered
                .extend(refused.iter().map(|refused| placed(&refused.error)));
        }
        Ok(solved)
    }
}
