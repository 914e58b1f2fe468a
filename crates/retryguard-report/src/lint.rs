//! What the linter found in several files: lines for people, JSON, SARIF, and annotations of a GitHub workflow.

mod github;
mod json;
mod sarif;
mod text;

use std::io;

use retryguard_policy::{Diagnostics, Report, Severity};

pub use github::annotations;
pub use json::objects;
pub use sarif::log;
pub use text::{findings, mistakes};

/// A file and what became of it.
#[derive(Debug)]
pub struct Checked {
    /// The file's name, as it was given.
    pub file: String,
    /// What became of it.
    pub judged: Judged,
}

/// The exit code for all files: 2 where one cannot be read as a policy, 1 where one has a finding of this severity or above.
#[must_use]
pub fn exit_code(checked: &[Checked], least: Severity) -> u8 {
    let codes = checked
        .iter()
        .map(|checked| checked.judged.passes(least).map_or(2, |passes| u8::from(!passes)));
    codes.max().unwrap_or(0)
}

/// What became of one file.
#[derive(Debug)]
pub enum Judged {
    /// It is a policy, and this is what the linter says.
    Report(Report),
    /// It is not a policy.
    Mistakes(Diagnostics),
    /// It could not be read.
    Unreadable(io::Error),
}

impl Judged {
    /// Whether it is a policy without a finding of this severity or above.
    #[must_use]
    pub fn passes(&self, least: Severity) -> Option<bool> {
        match self {
            Self::Report(report) => Some(report.findings.iter().all(|finding| finding.severity < least)),
            Self::Mistakes(_) | Self::Unreadable(_) => None,
        }
    }
}
