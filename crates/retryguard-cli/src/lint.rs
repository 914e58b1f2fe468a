//! `retryguard lint FILE…`: judges policies before they are deployed.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use retryguard_policy::Severity;
use retryguard_report::lint::{Checked, Judged, annotations, exit_code, findings, log, mistakes, objects};
use retryguard_translate::lint_file;

use crate::output;

/// Judge policy files: worst-case amplification, missing jitter, retries that do not fit, and more.
///
/// Exits with 0 when no finding is of severity error, with 1 when one is, and with 2 when a file cannot be read
/// as a policy. Every code is explained in docs/lint.md and by `retryguard explain CODE`. A comment in the file
/// allows a finding and says why: `guard: off # retryguard: allow RG016: one call a day`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard lint policy.yaml
  retryguard lint --deny warnings policies/*.yaml     fail on warnings, too
  retryguard lint --format sarif policy.yaml          for code scanning
  retryguard lint --format github policies/*.yaml     annotations in a GitHub workflow")]
pub(crate) struct Arguments {
    /// The policy files, or files of other systems that `retryguard import` reads; `-` reads from standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How the findings are printed.
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "json")]
    format: Format,
    /// The same as `--format json`.
    #[arg(long)]
    json: bool,
    /// Fail on these, too.
    #[arg(long, value_enum, value_name = "WHAT")]
    deny: Option<Deny>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each finding, and one for its cure.
    Text,
    /// One object for each file, one on a line.
    Json,
    /// SARIF 2.1.0: one log for all files.
    Sarif,
    /// Annotations of a GitHub workflow.
    Github,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// Warnings.
    Warnings,
    /// Warnings and notes.
    Notes,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let checked: Vec<Checked> = self
            .files
            .iter()
            .map(|file| Checked {
                file: file.display().to_string(),
                judged: judge(file),
            })
            .collect();
        eprint!("{}", mistakes(&checked));
        let out = match self.format {
            _ if self.json => objects(&checked),
            Format::Text => findings(&checked),
            Format::Json => objects(&checked),
            Format::Sarif => format!("{:#}\n", log(&checked)),
            Format::Github => annotations(&checked),
        };
        let least = match self.deny {
            None => Severity::Error,
            Some(Deny::Warnings) => Severity::Warning,
            Some(Deny::Notes) => Severity::Note,
        };
        // Success whatever the findings where the reader has stopped reading, as in `lint … | head`.
        Ok(match output::printed(&out)? {
            true => ExitCode::from(exit_code(&checked, least)),
            false => ExitCode::SUCCESS,
        })
    }
}

fn judge(file: &Path) -> Judged {
    let text = match output::read(file) {
        Err(error) => return Judged::Unreadable(error),
        Ok(text) => text,
    };
    let (judged, imported) = lint_file(&file.display().to_string(), &text);
    if let Some(imported) = imported {
        eprintln!("{imported}");
    }
    judged.map_or_else(Judged::Mistakes, Judged::Report)
}
