//! Storm, the independent model checker that ours is compared with, from PyPI.

use std::path::PathBuf;

use crate::shell;

/// The version that the tests were written against; the cache is keyed by it.
const VERSION: &str = "2.0.0";

/// The variable that enables the tests which ask Storm.
pub const VARIABLE: &str = "RETRYGUARD_STORM_PYTHON";

/// A Python that has stormpy, installed on first use.
///
/// # Errors
/// When Python or stormpy cannot be installed.
pub fn python() -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(shell::target().join(format!("storm-{VERSION}")))?;
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== Storm: installing stormpy {VERSION} (once, about a minute)");
        let text = folder.to_string_lossy().into_owned();
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::step("Storm", "python3", &["-m", "venv", &text])?;
        let wanted = format!("stormpy=={VERSION}");
        shell::step(
            "Storm",
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &wanted],
        )?;
        std::fs::write(&ready, "")?;
    }
    Ok(python)
}
