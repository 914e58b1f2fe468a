//! Programs that come as Python packages: each in an environment of its own, keyed by its version.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shell;

/// The programs, by the name of package and program, with the versions that the tests were written against.
const PROGRAMS: [(&str, &str); 2] = [("k6", "1.1.0"), ("schemathesis", "4.32.5")];

/// Installs them on first use. The answer is what tests need to find them.
pub(super) fn install() -> anyhow::Result<Vec<(String, OsString)>> {
    PROGRAMS
        .iter()
        .map(|(name, version)| one(name, version))
        .collect()
}

fn one(name: &str, version: &str) -> anyhow::Result<(String, OsString)> {
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
    let variable = format!("RETRYGUARD_PART_{}", name.to_uppercase());
    Ok((variable, folder.join("bin").join(name).into_os_string()))
}
