//! Running the programs that a step consists of.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, bail};

/// Runs one program with its output shown, and fails with what to do when it fails.
pub(crate) fn step(title: &str, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    step_with(title, program, arguments, &[])
}

/// As [`step`], with variables of the environment set.
pub(crate) fn step_with(
    title: &str,
    program: &str,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<()> {
    eprintln!("== {title}: {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .status()
        .with_context(|| format!("cannot start `{program}`: is it installed and on the PATH?"))?;
    if !status.success() {
        bail!(
            "{title} failed ({status}); run `{program} {}` to see it alone",
            arguments.join(" ")
        );
    }
    Ok(())
}
