//! The commands that run until they are stopped.

use std::{error::Error, future::Future};

/// Runs on all cores, with one line of JSON for every event on standard error.
pub(crate) fn block_on<T, E: Error + Send + Sync + 'static>(
    work: impl Future<Output = Result<T, E>>,
) -> anyhow::Result<T> {
    // Fails only where a logger is there already.
    let _ = tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(work)?)
}
