//! Installs the real servers that tests run against, and says where they are.
//!
//! The crate `retryguard-parts` finds a program by the variable `RETRYGUARD_PART_<NAME>` or on the `PATH`; what
//! does not come from a Debian package is kept under the target folder, keyed by its version; the API server, which is built from source, in the user's cache folder.

mod aws;
mod chromium;
mod definitions;
mod envoy;
mod haproxy;
mod kubernetes;
mod node;
mod prometheus;
mod python;
pub mod storm;

use std::ffi::OsString;
use std::thread::JoinHandle;

use anyhow::anyhow;

use crate::shell;

type Variables = Vec<(String, OsString)>;

/// What goes on beside the checks that come before the tests.
pub struct Begun {
    kubernetes: kubernetes::Building,
    /// Downloads: a browser, what attacks the laboratory from outside, and Amazon's APIs.
    outside: JoinHandle<anyhow::Result<Variables>>,
}

/// Starts what takes minutes.
pub fn begin() -> anyhow::Result<Begun> {
    Ok(Begun {
        // First: it installs packages before it returns, and two may not do so at once.
        kubernetes: kubernetes::begin()?,
        outside: std::thread::spawn(|| {
            chromium::install()?;
            let mut all = python::install()?;
            all.extend(aws::install()?);
            Ok(all)
        }),
    })
}

/// One part, for a caller that needs no other.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum One {
    /// Envoy, with Prometheus and promtool.
    Envoy,
    /// Chromium and its driver.
    Chromium,
    /// The API server, etcd and what builds them.
    Kubernetes,
    /// The definitions of Istio and of the Gateway API.
    MeshDefinitions,
}

/// Installs what is missing, or what one part needs, and prints the environment, as a shell reads it.
pub fn print(one: Option<One>) -> anyhow::Result<()> {
    let variables = match one {
        None => install(begin()?)?,
        Some(One::Envoy) => vec![envoy()?],
        Some(One::Chromium) => {
            chromium::install()?;
            Vec::new()
        }
        Some(One::Kubernetes) => vec![kubernetes::begin()?.finish()?],
        Some(One::MeshDefinitions) => vec![definitions::install()?],
    };
    for (name, value) in variables {
        println!("export {name}='{}'", value.to_string_lossy());
    }
    Ok(())
}

/// Installs Redis and PostgreSQL where they are missing; both are found without configuration.
pub fn databases() -> anyhow::Result<()> {
    shell::debian(&["redis-server", "--version"], &["redis-server"])?;
    shell::debian(
        &["sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres"],
        &["postgresql"],
    )
}

/// Installs what is missing. The answer is the environment in which the tests find it.
pub fn install(begun: Begun) -> anyhow::Result<Variables> {
    let mut all = begun
        .outside
        .join()
        .map_err(|_| anyhow!("the thread that installs Chromium has panicked"))??;
    databases()?;
    prometheus::install()?;
    haproxy::install()?;
    all.extend([
        envoy::install()?,
        definitions::install()?,
        node::install()?,
        begun.kubernetes.finish()?,
    ]);
    Ok(all)
}

/// Installs valgrind, which counts instructions, where it is missing.
///
/// # Errors
/// When the package cannot be installed.
pub fn valgrind() -> anyhow::Result<()> {
    shell::debian(&["valgrind", "--version"], &["valgrind"])
}

/// Envoy and Prometheus alone, for the experiment that needs no more.
pub fn envoy() -> anyhow::Result<(String, OsString)> {
    prometheus::install()?;
    envoy::install()
}
