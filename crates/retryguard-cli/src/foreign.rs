//! Policy files of any format: our own, and those of other systems, which are imported on the way.

use std::{fs, path::Path};

use anyhow::Context as _;
use retryguard_policy::Policy;
use retryguard_translate::{Format, Imported, import};

/// A policy file, whatever it is written in.
pub(crate) struct File {
    /// The policy's text.
    pub(crate) text: String,
    /// How it came about, where the file is of another system.
    pub(crate) imported: Option<Imported>,
}

impl File {
    /// Reads a file. The format is judged by its keys.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read the policy {}", path.display()))?;
        Self::of(text, None).with_context(|| path.display().to_string())
    }

    /// A text in this format, or in the one that its keys speak for.
    pub(crate) fn of(text: String, format: Option<Format>) -> anyhow::Result<Self> {
        let Some(format) = format.or_else(|| Format::detect(&text)) else {
            return Ok(Self { text, imported: None });
        };
        let imported = import(&text, format)?;
        Ok(Self {
            text: imported.policy.clone(),
            imported: Some(imported),
        })
    }

    /// The policy; says on standard error that it was imported, and how much of it is not the same.
    pub(crate) fn policy(&self, name: &str) -> anyhow::Result<Policy> {
        if let Some(imported) = &self.imported {
            say(name, imported);
        }
        Policy::parse(&self.text).map_err(|mistakes| anyhow::anyhow!("{name} has mistakes:\n{mistakes}"))
    }
}

/// One line about an import that was made on the way.
pub(crate) fn say(name: &str, imported: &Imported) {
    let count = imported.notes.len();
    let rest = match count {
        0 => "nothing is lost".to_owned(),
        1 => format!("one thing is not the same; `retryguard import {name}` says which"),
        _ => format!("{count} things are not the same; `retryguard import {name}` lists them"),
    };
    eprintln!("{name}: read as a file of {}: {rest}", imported.format);
}
