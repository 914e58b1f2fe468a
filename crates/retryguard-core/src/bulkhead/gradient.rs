//! A limit that follows the latency.

use std::time::Duration;

use super::Limit;
use crate::time::{Instant, nanos};

/// The adaptive limit: compares the latency of the last stretch with a long average of it.
#[derive(Debug, Clone)]
pub(super) struct Gradient {
    pub(super) limit: f64,
    usual: f64,
    sum: u64,
    count: u32,
    rejected: u32,
    due: Instant,
}

impl Gradient {
    /// How long a stretch lasts at the least, and how many answers it needs.
    const STRETCH: Duration = Duration::from_millis(100);
    const ANSWERS: u32 = 10;
    /// How much of a new stretch enters the long average (ten seconds of stretches make most of it), and of
    /// a new limit the limit.
    const AVERAGING: f64 = 0.01;
    const SMOOTHING: f64 = 0.2;

    /// Whether a limit follows the latency in this way.
    pub(super) const fn follows(limit: Limit) -> bool {
        matches!(limit, Limit::Gradient { .. })
    }

    pub(super) fn new(limit: Limit, now: Instant) -> Self {
        let limit = match limit {
            Limit::Fixed(limit) => f64::from(limit),
            Limit::Adaptive(settings) => f64::from(settings.most),
            Limit::Gradient {
                initial, least, most, ..
            } => between(f64::from(initial), least, most),
        };
        Self {
            limit,
            usual: 0.0,
            sum: 0,
            count: 0,
            rejected: 0,
            due: now.after(Self::STRETCH),
        }
    }

    pub(super) fn add(&mut self, latency: Duration, rejected: bool) {
        self.count += 1;
        if rejected {
            self.rejected += 1;
        } else {
            self.sum = self.sum.saturating_add(nanos(latency));
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.count >= Self::ANSWERS && now >= self.due
    }

    pub(super) fn update(&mut self, tolerance: f64, least: u32, most: u32, taken: u32, now: Instant) {
        let answered = self.count - self.rejected;
        let target = if self.rejected * 10 > self.count {
            // More than a tenth was rejected: the target says itself that there is too much.
            self.limit * 0.9
        } else {
            let recent = self.sum as f64 / f64::from(answered.max(1));
            self.usual = if self.usual == 0.0 {
                recent
            } else {
                self.usual * (1.0 - Self::AVERAGING) + recent * Self::AVERAGING
            };
            // After a long overload the average has become the overload; let it come down faster than it
            // went up, or the limit would take the slow answers for the usual ones.
            if self.usual > 2.0 * recent {
                self.usual *= 0.95;
            }
            let gradient = (tolerance * self.usual / recent.max(1.0)).clamp(0.5, 1.0);
            self.limit * gradient + self.limit.sqrt()
        };
        // A limit that the calls do not come near says nothing about how far it could go.
        if target < self.limit || f64::from(taken) * 2.0 >= self.limit {
            let smoothed = self.limit * (1.0 - Self::SMOOTHING) + target * Self::SMOOTHING;
            self.limit = between(smoothed, least, most);
        }
        (self.sum, self.count, self.rejected) = (0, 0, 0);
        self.due = now.after(Self::STRETCH);
    }
}

/// An adaptive limit within its bounds. Never below one, or nothing would be answered that could raise it
/// again; bounds in the wrong order are read as the lower one.
pub(super) fn between(limit: f64, least: u32, most: u32) -> f64 {
    let least = least.max(1);
    limit.clamp(f64::from(least), f64::from(most.max(least)))
}
