//! Policy files of any format: our own, and those of other systems, which are imported on the way.

use std::path::Path;

use retryguard_policy::Policy;
use retryguard_translate::PolicyFile;

/// Reads a file; says on standard error that it was imported, and how much of it is not the same.
pub(crate) fn policy(path: &Path) -> anyhow::Result<(PolicyFile, Policy)> {
    let name = path.display().to_string();
    let file = PolicyFile::read(path)?;
    if let Some(imported) = &file.imported {
        eprintln!("{}", imported.summary(&name));
    }
    let policy = file.policy(&name)?;
    Ok((file, policy))
}
