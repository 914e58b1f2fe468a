//! What stands in `deploy/` is what the programs take.

use std::path::{Path, PathBuf};
use std::process::Command;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

#[test]
fn the_bootstrap_is_valid() {
    let Some(envoy) = retryguard_parts::need("envoy") else {
        return;
    };
    let output = Command::new(envoy)
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(deploy().join("envoy/bootstrap.yaml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
