//! Installs the real servers that tests run against, and says where they are.
//!
//! The crate `retryguard-parts` finds a program by the variable `RETRYGUARD_PART_<NAME>` or on the `PATH`; what
//! does not come from a Debian package is kept under the target folder, keyed by its version.

mod aws;
mod envoy;
mod kubernetes;
mod prometheus;

use std::ffi::OsString;

use crate::shell;

/// Starts what takes minutes, to go on beside the checks that come before the tests.
pub(crate) fn begin() -> anyhow::Result<kubernetes::Building> {
    kubernetes::begin()
}

/// Installs what is missing and prints the environment, as a shell reads it.
pub(crate) fn print() -> anyhow::Result<()> {
    for (name, value) in install(begin()?)? {
        println!("export {name}='{}'", value.to_string_lossy());
    }
    Ok(())
}

/// Installs Redis and PostgreSQL where they are missing; both are found without being told where.
pub(crate) fn databases() -> anyhow::Result<()> {
    shell::debian(&["redis-server", "--version"], &["redis-server"])?;
    shell::debian(
        &["sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres"],
        &["postgresql"],
    )
}

/// Installs what is missing. The answer is the environment in which the tests find it.
pub(crate) fn install(kubernetes: kubernetes::Building) -> anyhow::Result<Vec<(String, OsString)>> {
    databases()?;
    prometheus::install()?;
    let mut all = aws::install()?;
    all.extend([envoy::install()?, kubernetes.finish()?]);
    Ok(all)
}

/// Envoy and Prometheus alone, for the experiment that needs no more.
pub(crate) fn envoy() -> anyhow::Result<(String, OsString)> {
    prometheus::install()?;
    envoy::install()
}
