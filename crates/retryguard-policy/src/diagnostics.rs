//! What is wrong with a policy file, all of it at once.

use std::fmt;

use crate::kind::Kind;

/// A place in the file. Lines and columns count from one, as editors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Position {
    /// The first character of a file: for mistakes of the file as a whole.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// The keys that a reader asked one block for, and where the block begins.
pub(crate) type Asked = (Position, Vec<(&'static str, Option<Kind>)>);

/// One mistake: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub message: String,
    /// What to do, the nearest known key included where there is one.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        write!(f, "line {line}, column {column}: {}; {}", self.message, self.help)
    }
}

/// Every mistake of a file, in the order of the file.
///
/// All of them and not the first: a policy is often repaired under pressure, and a checker that
/// shows one mistake a run costs a run a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The most mistakes that are kept. A file with more is not a policy with mistakes but something else,
    /// and the list would hide that.
    pub const MOST: usize = 100;

    /// A line for each mistake, with its place as editors and terminals link it: `policy.yaml:2:3: unknown key …`.
    #[must_use]
    pub fn in_file(&self, file: &str) -> String {
        let line = |mistake: &Diagnostic| {
            let Position { line, column } = mistake.at;
            format!("{file}:{line}:{column}: {}; {}", mistake.message, mistake.help)
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// A line for each mistake, without its place: for what the user did not write as a file.
    #[must_use]
    pub fn without_places(&self) -> String {
        let line = |mistake: &Diagnostic| format!("{}; {}", mistake.message, mistake.help);
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The mistakes. Never empty.
    #[must_use]
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.0
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Collects mistakes while a file is read.
#[derive(Debug, Default)]
pub struct Mistakes {
    found: Vec<Diagnostic>,
    /// What blocks were asked for, where that is noted.
    asked: Option<Vec<Asked>>,
}

impl Mistakes {
    /// Collects mistakes, and notes which keys every block was asked for.
    pub(crate) fn noting() -> Self {
        Self {
            found: Vec::new(),
            asked: Some(Vec::new()),
        }
    }

    /// Notes the keys of a block, where keys are noted.
    pub(crate) fn note(&mut self, keys: impl FnOnce() -> Asked) {
        if let Some(asked) = &mut self.asked {
            asked.push(keys());
        }
    }

    /// What was noted.
    pub(crate) fn asked(&mut self) -> Vec<Asked> {
        self.asked.take().unwrap_or_default()
    }

    /// Notes a mistake: where, what, and what to do about it.
    pub fn add(&mut self, at: Position, message: impl Into<String>, help: impl Into<String>) {
        let mistake = Diagnostic {
            at,
            message: message.into(),
            help: help.into(),
        };
        // What stands in `defaults` is met again in every service.
        if !self.is_full() && !self.found.contains(&mistake) {
            self.found.push(mistake);
        }
    }

    /// Whether further mistakes would be dropped, so that the search for them can stop.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.found.len() >= Diagnostics::MOST
    }

    /// `value` if there was no mistake.
    pub fn or<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found.sort_by_key(|mistake| mistake.at);
        Err(Diagnostics(self.found))
    }
}
