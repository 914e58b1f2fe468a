//! Chromium and its driver, from their Debian packages.

use crate::shell;

/// Installs both on first use.
pub(super) fn install() -> anyhow::Result<()> {
    shell::debian(
        &["sh", "-c", "chromium --version && chromedriver --version"],
        &["chromium", "chromium-driver"],
    )
}
