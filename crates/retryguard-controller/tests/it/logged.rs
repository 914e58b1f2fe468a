//! What is logged on the thread of a test.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing::subscriber::DefaultGuard;

/// The log since [`Logged::start`].
#[derive(Clone, Default)]
pub(crate) struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    /// Begins to record what this thread logs, for as long as the guard lives.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        let logged = Self::default();
        let writer = logged.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (logged, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
            .into_owned()
    }

    /// How often `part` was logged.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.text().matches(part).count()
    }
}

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
