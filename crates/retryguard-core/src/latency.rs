//! Latencies, kept so that a percentile can be asked for.

use std::time::Duration;

use crate::{ratio::Ratio, time::nanos};

/// Buckets per doubling of latency: the answer is at most an eighth too high.
const PER_OCTAVE: u32 = 8;
/// Latencies below 2^10 ns (a microsecond) share the first octave, those above 2^42 ns (73 minutes) the last.
const LOWEST_OCTAVE: u32 = 10;
const OCTAVES: u32 = 32;
const BUCKETS: usize = (PER_OCTAVE * OCTAVES) as usize;

/// A histogram with logarithmic buckets that forgets: once it holds [`Latencies::FULL`] values, all counts
/// are halved, so that the last few thousand speak loudest. A fixed 1 KiB, no allocation after the first.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Box<[u32; BUCKETS]>,
    total: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
        }
    }
}

impl Latencies {
    /// How many values are kept before all counts are halved.
    pub const FULL: u32 = 4096;

    /// Adds one latency.
    pub fn add(&mut self, latency: Duration) {
        self.counts[index_of(nanos(latency))] += 1;
        self.total += 1;
        if self.total >= Self::FULL {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// How many values it holds.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.total
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The latency that at least this share of the values does not exceed; `None` where there are none.
    #[must_use]
    pub fn quantile(&self, share: Ratio) -> Option<Duration> {
        let mut seen = 0u64;
        let index = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            // As many above as the share leaves, and not one more: rounding the other way would call a value
            // that nine of ten do not exceed their 95th percentile.
            seen > 0
                && share
                    .complement()
                    .covers(u64::from(self.total) - seen, u64::from(self.total))
        })?;
        Some(Duration::from_nanos(upper_end(index)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "an octave has eight parts, a histogram 256"
)]
fn index_of(nanos: u64) -> usize {
    let nanos = nanos.clamp(1 << LOWEST_OCTAVE, (1 << (LOWEST_OCTAVE + OCTAVES)) - 1);
    let octave = nanos.ilog2();
    let part = (nanos >> (octave - PER_OCTAVE.ilog2())) as u32 - PER_OCTAVE;
    ((octave - LOWEST_OCTAVE) * PER_OCTAVE + part) as usize
}

fn upper_end(index: usize) -> u64 {
    let octave = index as u64 / u64::from(PER_OCTAVE) + u64::from(LOWEST_OCTAVE);
    let part = index as u64 % u64::from(PER_OCTAVE);
    (u64::from(PER_OCTAVE) + part + 1) << (octave - u64::from(PER_OCTAVE.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_never_low_and_at_most_an_eighth_high() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|millis| latencies.add(Duration::from_millis(millis)));
        for percent in [1u32, 50, 90, 95, 99, 100] {
            let got = latencies.quantile(Ratio::percent(percent)).unwrap().as_secs_f64();
            let exact = f64::from(percent) / 100.0;
            assert!(got >= exact && got <= exact * 1.126, "p{percent}: {got}");
        }
    }

    /// The rank was rounded down: with ten values the 95th percentile was the ninth.
    #[test]
    fn a_quantile_of_few_values_is_not_low_either() {
        let mut latencies = Latencies::default();
        (0..9).for_each(|_| latencies.add(Duration::from_millis(1)));
        latencies.add(Duration::from_secs(1));
        assert!(latencies.quantile(Ratio::percent(95)).unwrap() >= Duration::from_secs(1));
        assert!(latencies.quantile(Ratio::percent(90)).unwrap() < Duration::from_millis(2));
    }

    #[test]
    fn the_ends_are_kept() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(Ratio::ONE), None);
        latencies.add(Duration::ZERO);
        latencies.add(Duration::MAX);
        assert!(latencies.quantile(Ratio::ZERO).unwrap() < Duration::from_micros(2));
        assert!(latencies.quantile(Ratio::ONE).unwrap() > Duration::from_secs(4000));
    }

    #[test]
    fn the_recent_speak_loudest() {
        let mut latencies = Latencies::default();
        (0..4000).for_each(|_| latencies.add(Duration::from_millis(10)));
        (0..8000).for_each(|_| latencies.add(Duration::from_millis(100)));
        assert!(latencies.quantile(Ratio::percent(50)).unwrap() > Duration::from_millis(90));
        assert!(latencies.len() < Latencies::FULL);
    }
}
