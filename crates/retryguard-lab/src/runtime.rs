//! The runtime for programs that have none.

/// Runs a future to its end on a runtime of its own. What it left running is dropped with it.
///
/// # Errors
/// Where the runtime cannot be made, or what the future says.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

/// Writes log lines as JSON to the standard error, with the trace's id on each request's line.
pub fn log_to_stderr() {
    // A second subscriber is refused, and the first stays.
    let _ = tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .try_init();
}
