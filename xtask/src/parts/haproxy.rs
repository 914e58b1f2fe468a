//! HAProxy, from its Debian package.

use crate::shell;

/// Installs it on first use.
pub(super) fn install() -> anyhow::Result<()> {
    shell::debian(&["/usr/sbin/haproxy", "-v"], &["haproxy"])
}
