//! The Markdown pages of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every tracked page: its path from the root, and its text.
///
/// # Errors
/// When git cannot be run.
pub fn all() -> anyhow::Result<Vec<(String, String)>> {
    tracked(|path| path.ends_with(".md"))
}

/// Every tracked text file that is wanted: its path from the root, and its text.
///
/// # Errors
/// When git cannot be run.
pub fn tracked(wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<(String, String)>> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files"])
        .output()
        .context("cannot run `git ls-files`")?;
    let read = |path: &str| Some((path.to_owned(), std::fs::read_to_string(root().join(path)).ok()?));
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|path| wanted(path))
        .filter_map(read)
        .collect())
}
