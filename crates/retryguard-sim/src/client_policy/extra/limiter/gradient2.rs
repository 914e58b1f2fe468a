//! Netflix's `Gradient2Limit` behind a `WindowedLimit`: the limit follows the ratio of a long to a short average of the latency.

use std::time::Duration;

use retryguard_core::Instant;

use super::{Average, End, LEAST, Sample};

const SMOOTHING: f64 = 0.2;
const TOLERANCE: f64 = 1.5;
const QUEUE: f64 = 4.0;
const LIMITS: (f64, f64) = (20.0, 200.0);
const WINDOW: Duration = Duration::from_secs(1);
const LEAST_SAMPLES: u32 = 10;

#[derive(Debug)]
pub(super) struct Gradient2 {
    limit: f64,
    long: Average,
    /// The window: the sum of the latencies, their number and the most in flight.
    sum: f64,
    count: u32,
    most: u32,
    ends: Instant,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self {
            limit: LIMITS.0,
            long: Average::over(600.0),
            sum: 0.0,
            count: 0,
            most: 0,
            ends: Instant::ZERO,
        }
    }
}

impl Gradient2 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit is small and positive"
    )]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// What fails in another way than by rejection or timeout is ignored, and so is what took no time.
    pub(super) fn on_sample(&mut self, sample: &Sample) {
        if sample.end == End::Failed || sample.took() < LEAST {
            return;
        }
        self.sum += sample.nanos();
        self.count += 1;
        self.most = self.most.max(sample.in_flight);
        if sample.now > self.ends {
            self.ends = sample.now.after(WINDOW);
            if self.count >= LEAST_SAMPLES {
                self.update(self.sum / f64::from(self.count), f64::from(self.most));
            }
            (self.sum, self.count, self.most) = (0.0, 0, 0);
        }
    }

    fn update(&mut self, short: f64, in_flight: f64) {
        let long = self.long.add(short);
        // After a long overload the long average comes down faster than by itself.
        if long / short > 2.0 {
            self.long.value *= 0.95;
        }
        if in_flight < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * long / short).clamp(0.5, 1.0);
        let wanted = self.limit.mul_add(gradient, QUEUE);
        let smoothed = self.limit.mul_add(1.0 - SMOOTHING, wanted * SMOOTHING);
        self.limit = smoothed.clamp(LIMITS.0, LIMITS.1);
    }
}
