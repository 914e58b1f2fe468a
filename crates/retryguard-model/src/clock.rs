//! The one place that reads the clock: to report how long building and solving took, never to decide anything.

use std::time::Instant;

/// Started when made.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "the times of building and solving are part of every report"
    )]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
