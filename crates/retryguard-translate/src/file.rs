//! A policy file in any format.

use crate::{Format, Imported, Refused, import::import};

/// A policy file, imported where it is of another system.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyFile {
    /// The policy's text.
    pub text: String,
    /// How it came about, where the file is of another system.
    pub imported: Option<Imported>,
}

impl PolicyFile {
    /// A text in this format, or in the one that its keys speak for. A text in no other format is taken as a policy.
    ///
    /// # Errors
    /// Where the file is of another system and cannot be imported.
    pub fn of(text: String, format: Option<Format>) -> Result<Self, Refused> {
        let Some(format) = format.or_else(|| Format::detect(&text)) else {
            return Ok(Self { text, imported: None });
        };
        let imported = import(&text, format)?;
        Ok(Self {
            text: imported.policy.clone(),
            imported: Some(imported),
        })
    }
}

impl Imported {
    /// One line for a command that imported the file of this name on the way.
    #[must_use]
    pub fn summary(&self, name: &str) -> String {
        let rest = match self.notes.len() {
            0 => "nothing is lost".to_owned(),
            1 => format!("one thing is not the same; `retryguard import {name}` says which"),
            count => format!("{count} things are not the same; `retryguard import {name}` lists them"),
        };
        format!("{name}: read as a file of {}: {rest}", self.format)
    }
}
