//! Prometheus and promtool, from their Debian package.

use crate::shell;

/// Installs both on first use.
pub(super) fn install() -> anyhow::Result<()> {
    shell::debian(&["promtool", "--version"], &["prometheus"])
}
