//! What a policy says without a mistake, and should not say all the same.

use crate::{
    compile,
    diagnostics::{Diagnostics, Mistakes},
    policy::read,
};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Likely to hurt.
    Warning,
    /// Will hurt in the first outage.
    Error,
}

impl Severity {
    /// The word used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that the linter found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its code, such as `RG001`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The line that it is about.
    pub line: u32,
    /// What was found, with the numbers of this policy.
    pub message: String,
    /// What to do about it.
    pub cure: String,
}

/// What the linter says about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The digest of the policy.
    pub digest: String,
    /// The attempts that can arrive at a target for one call at the edge, along the worst path of `calls`.
    pub amplification: u64,
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
}

/// Checks a policy file and judges what it says.
pub fn lint(text: &str) -> Result<Report, Diagnostics> {
    let mut mistakes = Mistakes::default();
    let written = read(text, &mut mistakes);
    let policy = compile::policy(&written, &mut mistakes);
    mistakes.or(Report {
        digest: policy.digest.clone(),
        amplification: 1,
        findings: Vec::new(),
    })
}
