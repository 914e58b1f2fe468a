//! The send limiter of the AWS SDKs' adaptive mode, as botocore has it.

use std::time::Duration;

use retryguard_core::Instant;

use crate::distribution::seconds;

/// A token bucket whose rate follows a cubic curve after each throttle. Off until the first throttle.
#[derive(Debug)]
pub(crate) struct SendLimiter {
    enabled: bool,
    fill_rate: f64,
    capacity: f64,
    tokens: f64,
    filled: f64,
    /// The measured sending rate, smoothed over buckets of half a second.
    measured: f64,
    bucket: f64,
    sent: f64,
    w_max: f64,
    throttled: f64,
}

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
const LEAST_RATE: f64 = 0.5;

impl Default for SendLimiter {
    fn default() -> Self {
        Self {
            enabled: false,
            fill_rate: 0.0,
            capacity: 0.0,
            tokens: 0.0,
            filled: 0.0,
            measured: 0.0,
            bucket: 0.0,
            sent: 0.0,
            w_max: 0.0,
            throttled: 0.0,
        }
    }
}

impl SendLimiter {
    /// Takes a token, or says how long to wait before asking again. The rate may change meanwhile, so nothing
    /// is taken in advance.
    pub(super) fn acquire(&mut self, now: Instant) -> Duration {
        if !self.enabled {
            return Duration::ZERO;
        }
        self.fill(moment(now));
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Duration::ZERO;
        }
        seconds((1.0 - self.tokens) / self.fill_rate).max(Duration::from_micros(1))
    }

    pub(super) fn on_response(&mut self, throttled: bool, now: Instant) {
        let t = moment(now);
        self.measure(t);
        let rate = if throttled {
            let rate = if self.enabled {
                self.measured.min(self.fill_rate)
            } else {
                self.measured
            };
            self.w_max = rate;
            self.throttled = t;
            self.enabled = true;
            rate * BETA
        } else {
            let k = (self.w_max * (1.0 - BETA) / SCALE).cbrt();
            SCALE.mul_add((t - self.throttled - k).powi(3), self.w_max)
        };
        self.fill(t);
        self.fill_rate = rate.min(2.0 * self.measured).max(LEAST_RATE);
        self.capacity = self.fill_rate.max(1.0);
        self.tokens = self.tokens.min(self.capacity);
    }

    fn measure(&mut self, t: f64) {
        let bucket = (t * 2.0).floor() / 2.0;
        self.sent += 1.0;
        if bucket > self.bucket {
            let rate = self.sent / (bucket - self.bucket);
            self.measured = SMOOTH.mul_add(rate, self.measured * (1.0 - SMOOTH));
            self.sent = 0.0;
            self.bucket = bucket;
        }
    }

    fn fill(&mut self, t: f64) {
        self.tokens = (self.tokens + (t - self.filled) * self.fill_rate).min(self.capacity);
        self.filled = t;
    }
}

/// Seconds since the origin.
#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds of a simulated day fit 53 bits"
)]
fn moment(now: Instant) -> f64 {
    now.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_back_only_after_a_throttle() {
        let mut limiter = SendLimiter::default();
        for tenth in 0..50 {
            let now = Instant::from_millis(tenth * 100);
            assert_eq!(limiter.acquire(now), Duration::ZERO);
            limiter.on_response(false, now);
        }
        limiter.on_response(true, Instant::from_millis(5_000));
        // Ten a second was measured, so 7 a second is the new rate; what the bucket held before is not lost.
        assert!((limiter.fill_rate - 7.0).abs() < 1.0, "{}", limiter.fill_rate);
        let at_once = (0..100)
            .filter(|_| limiter.acquire(Instant::from_millis(5_010)).is_zero())
            .count();
        assert!(at_once <= 8, "{at_once}");
        let sent = (0..1000)
            .filter(|ms| limiter.acquire(Instant::from_millis(5_010 + ms)).is_zero())
            .count();
        assert!((6..=8).contains(&sent), "{sent}");
    }
}
