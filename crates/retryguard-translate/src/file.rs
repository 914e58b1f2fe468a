//! A policy file in any format.

use std::{fmt, io, path::Path};

use retryguard_policy::{Diagnostics, Policy, Report, lint};
use serde_json::json;

use crate::{Format, Imported, Refused, import::import};

/// A policy file, imported where it is of another system.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyFile {
    /// The policy's text.
    pub text: String,
    /// How it came about, where the file is of another system.
    pub imported: Option<Imported>,
}

/// Why a file has no policy.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    Unreadable(String, io::Error),
    /// It is of another system and cannot be imported.
    Refused(String, Refused),
    /// The policy has mistakes.
    Mistakes(String, Diagnostics),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(name, error) => write!(f, "cannot read the policy {name}: {error}"),
            Self::Refused(name, refused) => write!(f, "{name}: {refused}"),
            Self::Mistakes(name, mistakes) => write!(f, "{name} has mistakes:\n{}", mistakes.in_file(name)),
        }
    }
}

impl std::error::Error for FileError {}

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

    /// Reads a file. The format is judged by its keys.
    ///
    /// # Errors
    /// Where the file cannot be read or imported.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| FileError::Unreadable(name.clone(), error))?;
        Self::of(text, None).map_err(|refused| FileError::Refused(name, refused))
    }

    /// The policy in the file of this name.
    ///
    /// # Errors
    /// Where it has mistakes.
    pub fn policy(&self, name: &str) -> Result<Policy, FileError> {
        Policy::parse(&self.text).map_err(|mistakes| FileError::Mistakes(name.to_owned(), mistakes))
    }
}

/// What the linter says of a policy file, and what to say of its import. A file of another system is imported first; its findings
/// are in the words of the file, on its lines.
///
/// # Errors
/// Where the file is not a policy: every mistake.
pub fn lint_file(name: &str, text: &str) -> (Result<Report, Diagnostics>, Option<String>) {
    match PolicyFile::of(text.to_owned(), None) {
        Ok(PolicyFile {
            imported: Some(imported),
            ..
        }) => (imported.judged(text), Some(imported.summary(name))),
        // A file that cannot be imported is read as a policy, which reports all its mistakes.
        Ok(_) | Err(_) => (lint(text), None),
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

    /// The policy and what is not the same, as JSON for the file of this name.
    #[must_use]
    pub fn json(&self, name: &str) -> String {
        let notes: Vec<_> = self
            .notes
            .iter()
            .map(|note| json!({"line": note.line, "kind": note.kind.as_str(), "message": note.message}))
            .collect();
        let object = json!({
            "file": name,
            "format": self.format.as_str(),
            "policy": self.policy,
            "notes": notes,
        });
        format!("{object:#}\n")
    }
}
