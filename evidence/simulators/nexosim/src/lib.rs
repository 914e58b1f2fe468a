//! What the two programs in nexosim share: random numbers, durations, and the clock that measures them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// SplitMix64: part of the model's state, which nexosim serialises.
#[derive(Serialize, Deserialize)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    #[inline]
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// From 0 to below 1.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    #[inline]
    pub fn exponential(&mut self, mean: f64) -> Duration {
        nanos(-mean * (1.0 - self.uniform()).ln())
    }
}

/// A wait, at least a nanosecond, because nexosim refuses to schedule an event for the present.
#[inline]
pub fn nanos(seconds: f64) -> Duration {
    Duration::from_nanos(((seconds * 1e9) as u64).max(1))
}

/// The time that this thread has had a processor, in seconds; the time of day where the system does not report it.
pub fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().map(str::parse::<f64>);
    if let Some(Ok(nanos)) = nanos {
        return nanos / 1e9;
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
