//! Looks at the whole system once in every described second.

use std::time::Duration;

use super::subject::Subject;
use crate::{clock, counts::Reading, load::Driver};

/// The system at the end of a described second.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) reading: Reading,
    /// The calls that users had made, replays included.
    pub(crate) calls: u64,
    /// The attempts that users had made.
    pub(crate) attempts: u64,
}

/// The samples of a run, one at its beginning and one after each second.
pub(super) async fn sample(
    subject: &Subject,
    driver: &Driver,
    length: Duration,
    (from, until): (Duration, Duration),
) -> Vec<Sample> {
    let start = clock::now();
    let scale = subject.settings().scale;
    let mut samples = Vec::new();
    for second in 0..=length.as_secs() {
        let at = Duration::from_secs(second);
        clock::sleep_until(start + scale.span(at)).await;
        // Latencies are many numbers, and only those of the window are wanted.
        let reading = subject.reading(at == from || at == until).await;
        samples.push(Sample {
            reading,
            calls: driver.calls(),
            attempts: driver.attempts(),
        });
    }
    samples
}
