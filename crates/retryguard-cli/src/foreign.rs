//! Policy files of any format: our own, and those of other systems, which are imported on the way.

use std::{fs, path::Path};

use anyhow::Context as _;
use retryguard_policy::Policy;
use retryguard_translate::PolicyFile;

/// Reads a file. The format is judged by its keys.
pub(crate) fn read(path: &Path) -> anyhow::Result<PolicyFile> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read the policy {}", path.display()))?;
    PolicyFile::of(text, None).with_context(|| path.display().to_string())
}

/// The policy; says on standard error that it was imported, and how much of it is not the same.
pub(crate) fn policy(file: &PolicyFile, name: &str) -> anyhow::Result<Policy> {
    if let Some(imported) = &file.imported {
        eprintln!("{}", imported.summary(name));
    }
    Policy::parse(&file.text).map_err(|mistakes| anyhow::anyhow!("{name} has mistakes:\n{mistakes}"))
}
