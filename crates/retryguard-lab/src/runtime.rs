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

/// Ends when the standard input is closed: the process that started this program has ended.
pub async fn standard_input_closed() {
    let (tell, closed) = tokio::sync::oneshot::channel();
    // A thread, and not a task for blocking work: the runtime would wait for the latter at its end.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = tell.send(());
    });
    let _ = closed.await;
}

/// The signal that ended a run before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Interrupted {
    /// The exit code that shells give a process that ends by this signal.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "stopped by Ctrl-C; nothing stays behind",
            Self::Terminate => "stopped by SIGTERM; nothing stays behind",
        })
    }
}

impl std::error::Error for Interrupted {}

/// Waits for Ctrl-C or SIGTERM. Both are listened for from this call on, not from the first poll: a program that prints its
/// address afterwards can be interrupted as soon as it is read.
///
/// # Errors
/// If signal handlers cannot be installed.
pub fn interrupt() -> impl Future<Output = anyhow::Result<Interrupted>> {
    use tokio::signal::unix::{SignalKind, signal};
    let handlers = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [interrupted, ended] = handlers;
        let (mut interrupted, mut ended) = (interrupted?, ended?);
        tokio::select! {
            _ = interrupted.recv() => Ok(Interrupted::Interrupt),
            _ = ended.recv() => Ok(Interrupted::Terminate),
        }
    }
}
