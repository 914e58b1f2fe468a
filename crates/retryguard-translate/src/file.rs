//! A policy file in any format.

use std::{
    fmt,
    io::{self, Read as _},
    path::Path,
};

use retryguard_policy::{Diagnostics, Policy, Position, Report, lint, reading::Mistakes};
use serde_json::json;

use crate::{Format, Imported, LARGEST_FILE, Refused, import::import, tree};

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
        let text = std::fs::File::open(path)
            .and_then(read_text)
            .map_err(|error| FileError::Unreadable(name.clone(), error))?;
        Self::of(text, None).map_err(|refused| FileError::Refused(name, refused))
    }

    /// The policy in the file of this name.
    ///
    /// # Errors
    /// Where it has mistakes.
    pub fn policy(&self, name: &str) -> Result<Policy, FileError> {
        Policy::parse(&self.text)
            .map_err(|mistakes| FileError::Mistakes(name.to_owned(), with_syntax(&self.text, mistakes)))
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
        Ok(_) => (lint(text).map_err(|mistakes| with_syntax(text, mistakes)), None),
        Err(refused) => (Err(diagnostics(refused)), None),
    }
}

/// Why a text is neither YAML nor JSON; `None` where it is one of them.
#[must_use]
pub fn syntax_error(text: &str) -> Option<Refused> {
    tree::read(text).err()
}

/// The text of a file. One that is not UTF-8 says so. Reads one byte more than the largest file that can be imported: a wrong path
/// can name a file without an end, and the reader of the text reports that it is too large.
///
/// # Errors
/// Where it cannot be read.
pub fn read_text(file: impl io::Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// The mistakes of a policy, or the file's syntax error behind the place at which the reader of policies stopped: a file of another
/// system is not recognised if it is broken, and its second document is not the mistake.
fn with_syntax(text: &str, mistakes: Diagnostics) -> Diagnostics {
    let stopped = mistakes.as_slice().last().map_or(0, |mistake| mistake.at.line);
    // A mistake on the first line is one of the file as a whole, such as its size.
    let broken = (stopped > 1).then(|| syntax_error(text)).flatten();
    match broken {
        Some(refused) if refused.line.is_some_and(|line| line > stopped) => diagnostics(refused),
        _ => mistakes,
    }
}

fn diagnostics(refused: Refused) -> Diagnostics {
    let at = Position {
        line: refused.line.unwrap_or(1),
        column: 1,
    };
    let help = match refused.line {
        Some(_) => "check the indentation and the quotes around here",
        None => "`retryguard import` says what is read of such a file",
    };
    let mut mistakes = Mistakes::default();
    mistakes.add(at, refused.message, help);
    match mistakes.or(()) {
        Err(mistakes) => mistakes,
        Ok(()) => unreachable!("one was added"),
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
