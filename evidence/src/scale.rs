//! How many targets and Envoys one controller bears, written to `docs/evidence/controller-scale.md`.

use xtask::shell;

/// Runs the example of the controller that measures and writes the page.
pub(crate) fn write() -> anyhow::Result<()> {
    shell::step(
        "scale",
        "cargo",
        &[
            "run",
            "--release",
            "--package=retryguard-controller",
            "--features=envoy",
            "--example=scale",
            "--",
            "page",
            "docs/evidence/controller-scale.md",
        ],
    )
}
