//! `retryguard lint FILE…`: judges policies before they are deployed.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::ValueEnum;
use retryguard_policy::{LARGEST_FILE, Severity};
use retryguard_report::lint::{Checked, Judged, annotations, findings, log, mistakes, objects};
use retryguard_translate::lint_file;

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

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let checked: Vec<Checked> = arguments
        .files
        .iter()
        .map(|file| Checked {
            file: file.display().to_string(),
            judged: judge(file),
        })
        .collect();
    eprint!("{}", mistakes(&checked));
    let format = if arguments.json {
        Format::Json
    } else {
        arguments.format
    };
    let out = match format {
        Format::Text => findings(&checked),
        Format::Json => objects(&checked),
        Format::Sarif => format!("{:#}\n", log(&checked)),
        Format::Github => annotations(&checked),
    };
    let mut stdout = io::stdout().lock();
    match stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => exit_code(&checked, arguments.deny),
        // A broken pipe is not an error, whatever the findings: the reader has stopped reading.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard lint: cannot write the report: {error}");
            ExitCode::from(2)
        }
    }
}

fn judge(file: &PathBuf) -> Judged {
    let text = match read(file) {
        Err(error) => return Judged::Unreadable(error),
        Ok(text) => text,
    };
    let (judged, imported) = lint_file(&file.display().to_string(), &text);
    if let Some(imported) = imported {
        eprintln!("{imported}");
    }
    judged.map_or_else(Judged::Mistakes, Judged::Report)
}

/// Reads no more than the largest file that can be imported: a wrong path can name a file of any size.
fn read(file: &PathBuf) -> io::Result<String> {
    use io::Read;
    let bound = LARGEST_FILE.max(retryguard_translate::LARGEST_FILE) as u64 + 1;
    let mut text = String::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().take(bound).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?.take(bound).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn exit_code(checked: &[Checked], deny: Option<Deny>) -> ExitCode {
    let least = match deny {
        None => Severity::Error,
        Some(Deny::Warnings) => Severity::Warning,
        Some(Deny::Notes) => Severity::Note,
    };
    let worst = checked
        .iter()
        .map(|checked| checked.judged.passes(least).map_or(2, |passes| u8::from(!passes)));
    ExitCode::from(worst.max().unwrap_or(0))
}
