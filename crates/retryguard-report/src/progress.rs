//! A bar on standard error, and only on a terminal.

use std::{
    io::{IsTerminal, Write},
    sync::atomic::{AtomicUsize, Ordering},
};

/// A bar for many runs.
pub struct Progress {
    all: usize,
    done: AtomicUsize,
    seen: bool,
}

impl Progress {
    /// For so many runs.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self {
            all,
            done: AtomicUsize::new(0),
            seen: std::io::stderr().is_terminal() && all > 1,
        }
    }

    /// Where it is not known beforehand how many there will be.
    #[must_use]
    pub fn unbounded() -> Self {
        Self {
            all: 0,
            done: AtomicUsize::new(0),
            seen: std::io::stderr().is_terminal(),
        }
    }

    /// One more is done.
    pub fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.seen && self.all == 0 {
            let _ = write!(std::io::stderr().lock(), "\r{done} runs");
        } else if self.seen {
            const WIDTH: usize = 40;
            let full = WIDTH * done / self.all.max(1);
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full.min(WIDTH)));
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(std::io::stderr().lock(), "\r{bar} {done}/{} runs", self.all);
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if self.seen {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
        }
    }
}
