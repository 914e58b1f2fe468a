//! gRPC for Node, from npm.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shell;

/// Packages, with the versions that the tests were written against; the folder is keyed by the second.
const PACKAGES: [&str; 2] = ["@grpc/grpc-js@1.14.7", "@grpc/grpc-js-xds@1.14.1"];
const VERSION: &str = "1.14.1";

/// Installs it on first use. The answer is where Node finds its modules.
pub(super) fn install() -> anyhow::Result<(String, OsString)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("grpc-node-{VERSION}")))?;
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== gRPC for Node: installing {VERSION} (once)");
        shell::npm(&folder, &PACKAGES)?;
        std::fs::write(&ready, "")?;
    }
    Ok((
        "RETRYGUARD_PART_GRPC_NODE".to_owned(),
        folder.join("node_modules").into_os_string(),
    ))
}
