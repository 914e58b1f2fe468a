//! Programs that come as Python packages: each in an environment of its own, keyed by its version.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shell;

/// Packages, with the versions that the tests were written against, and the program of each.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("k6", "1.1.0", "k6"),
    ("schemathesis", "4.32.5", "schemathesis"),
    ("distributed", "2026.8.0", "dask"),
    ("helm-binary", "3.17.3.post1", "helm"),
];

/// Installs them on first use. The answer is what tests need to find them.
pub(super) fn install() -> anyhow::Result<Vec<(String, OsString)>> {
    PROGRAMS
        .iter()
        .map(|(name, version, program)| one(name, version, program))
        .collect()
}

fn one(name: &str, version: &str, program: &str) -> anyhow::Result<(String, OsString)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("{name}-{version}")))?;
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== {name}: installing {version} (once)");
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::install(name, "python3", &["-m", "venv", &folder.to_string_lossy()])?;
        let python = folder.join("bin/python");
        let wanted = format!("{name}=={version}");
        shell::install(
            name,
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &wanted],
        )?;
        std::fs::write(&ready, "")?;
    }
    let variable = format!("RETRYGUARD_PART_{}", program.to_uppercase());
    Ok((variable, folder.join("bin").join(program).into_os_string()))
}
