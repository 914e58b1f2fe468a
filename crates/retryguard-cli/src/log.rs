//! The log of the commands that run until they are stopped.

/// One line of JSON for every event, on standard error.
pub(crate) fn to_stderr() {
    // Fails only where a logger is there already.
    let _ = tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .try_init();
}
