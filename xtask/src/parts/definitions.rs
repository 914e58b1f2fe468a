//! Kubernetes definitions of Istio and the Gateway API, made from npm packages that hold their schemas.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::shell;

/// Packages, with the versions that the tests were written against: Istio 1.29 and the Gateway API with its experimental kinds.
const PACKAGES: [&str; 2] = [
    "@kubernetes-models/istio@3.0.1",
    "@kubernetes-models/gateway-api@2.0.0",
];

/// The folder is keyed by it: raise it with the packages or the script.
const VERSION: &str = "3.0.1-2.0.0";

const SCRIPT: &str = include_str!("definitions.mjs");

/// Writes them on first use. The answer is what tests need to find them.
pub(super) fn install() -> anyhow::Result<(String, OsString)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("mesh-definitions-{VERSION}")))?;
    let written = folder.join("written");
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== Istio and Gateway API: writing their definitions (once, 35 MB)");
        fs::create_dir_all(&written)?;
        let script = folder.join("definitions.mjs");
        fs::write(&script, SCRIPT)?;
        shell::npm(&folder, &PACKAGES)?;
        let arguments = [script.to_string_lossy(), written.to_string_lossy()];
        shell::install("definitions", "node", &[&arguments[0], &arguments[1]])?;
        fs::write(&ready, "")?;
    }
    Ok((
        "RETRYGUARD_PART_MESH_DEFINITIONS".to_owned(),
        written.into_os_string(),
    ))
}
