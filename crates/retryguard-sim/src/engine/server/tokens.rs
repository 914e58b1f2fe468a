//! Provisioned capacity: so many requests a second, and what was not used is saved up.

use std::time::Duration;

use retryguard_core::Instant;

#[derive(Debug)]
pub(in crate::engine) struct Tokens {
    pub(in crate::engine) per_second: f64,
    burst: Duration,
    second: u64,
    left: f64,
    saved: f64,
}

/// Where a request was served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Source {
    Capacity,
    Burst,
}

impl Tokens {
    pub(super) fn new(per_second: f64, burst: Duration) -> Self {
        Self {
            per_second,
            burst,
            second: 0,
            left: per_second,
            saved: 0.0,
        }
    }

    pub(in crate::engine) fn has_one(&mut self, now: Instant, share: f64) -> bool {
        self.turn(now, share);
        self.left >= 1.0 || self.saved >= 1.0
    }

    /// Takes one, if there is one.
    pub(in crate::engine) fn take(&mut self, now: Instant, share: f64) -> Option<Source> {
        self.turn(now, share);
        if self.left >= 1.0 {
            self.left -= 1.0;
            Some(Source::Capacity)
        } else if self.saved >= 1.0 {
            self.saved -= 1.0;
            Some(Source::Burst)
        } else {
            None
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a run has few seconds")]
    fn turn(&mut self, now: Instant, share: f64) {
        let second = now.as_nanos() / 1_000_000_000;
        if second == self.second {
            return;
        }
        let idle = (second - self.second - 1) as f64;
        let unused = self.left + idle * self.per_second * share;
        self.saved = (self.saved + unused).min(self.burst.as_secs_f64() * self.per_second);
        // A fraction of a request is kept for the next second, so that 0.5 a second is one in two.
        let fraction = if self.burst.is_zero() {
            self.left.fract()
        } else {
            0.0
        };
        self.left = self.per_second.mul_add(share, fraction);
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unused_is_saved_up_to_its_bound() {
        let mut tokens = Tokens::new(10.0, Duration::from_secs(3));
        let mut take = |secs| {
            let mut served = 0;
            while tokens.take(Instant::from_secs(secs), 1.0).is_some() {
                served += 1;
            }
            served
        };
        assert_eq!(take(0), 10);
        assert_eq!(take(1), 10);
        assert_eq!(take(3), 20);
        assert_eq!(take(100), 40);
        assert_eq!(take(101), 10);
    }

    #[test]
    fn half_a_request_a_second_is_one_in_two() {
        let mut tokens = Tokens::new(0.5, Duration::ZERO);
        let served = (0..100)
            .filter(|&secs| tokens.take(Instant::from_secs(secs), 1.0).is_some())
            .count();
        assert!((49..=50).contains(&served), "{served}");
    }
}
