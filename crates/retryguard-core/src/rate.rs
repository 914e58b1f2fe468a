//! A rate: so many calls in a span of time, evenly spread, and a burst.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// How many calls a rate lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// So many calls …
    pub calls: u32,
    /// … in this span.
    pub per: Duration,
    /// How many may come at once after a pause; at least one.
    pub burst: u32,
    /// The longest that a call waits for its turn; zero for not at all.
    pub wait: Duration,
}

impl Settings {
    /// So many calls in this span, evenly spread: one at once, and no waiting.
    #[must_use]
    pub const fn new(calls: u32, per: Duration) -> Self {
        Self {
            calls,
            per,
            burst: 1,
            wait: Duration::ZERO,
        }
    }

    /// How many may come at once after a pause; at least one.
    #[must_use]
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }

    /// The longest that a call waits for its turn.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl Default for Settings {
    /// 100 in a second, ten at once, no waiting.
    fn default() -> Self {
        Self {
            calls: 100,
            per: Duration::from_secs(1),
            burst: 10,
            wait: Duration::ZERO,
        }
    }
}

/// The rate limiter: the generic cell rate algorithm (ITU-T I.371), a token bucket that is kept as one time.
///
/// Its only state is the time at which the bucket will be full again, so that it needs neither a timer nor a window, and
/// never lets more through than `burst + calls · t / per` in any span `t`.
#[derive(Debug, Clone)]
pub struct Rate {
    settings: Settings,
    /// When the bucket is full.
    full: u64,
}

impl Rate {
    /// A full bucket.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings, full: 0 }
    }

    /// Takes a place and says how long the call must wait for it; or says when a place will be near enough.
    ///
    /// # Errors
    /// With the wait that is longer than the settings allow. Nothing is taken then.
    pub fn take(&mut self, now: Instant) -> Result<Duration, Duration> {
        let interval = self.interval();
        let room = interval.saturating_mul(u64::from(self.settings.burst.max(1)));
        let now = now.as_nanos();
        let full = self.full.max(now).saturating_add(interval);
        let wait = full.saturating_sub(now).saturating_sub(room);
        if wait > nanos(self.settings.wait) {
            return Err(Duration::from_nanos(wait));
        }
        self.full = full;
        Ok(Duration::from_nanos(wait))
    }

    /// Gives a place back: the call that took it was not made.
    pub fn give_back(&mut self) {
        self.full = self.full.saturating_sub(self.interval());
    }

    /// The time between two calls, rounded up: a rate is never exceeded by rounding.
    fn interval(&self) -> u64 {
        /// 36 years. Sums of longer times would not fit into 64 bits.
        const LONGEST: u64 = 1 << 60;
        nanos(self.settings.per)
            .div_ceil(u64::from(self.settings.calls.max(1)))
            .clamp(1, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        calls: 10,
        per: Duration::from_secs(1),
        burst: 3,
        wait: Duration::ZERO,
    };

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut rate = Rate::new(SETTINGS);
        let now = Instant::from_secs(5);
        for _ in 0..3 {
            assert_eq!(rate.take(now), Ok(Duration::ZERO));
        }
        assert_eq!(rate.take(now), Err(Duration::from_millis(100)));
        let later = now.after(Duration::from_millis(100));
        assert_eq!(rate.take(later), Ok(Duration::ZERO));
        assert!(rate.take(later).is_err());
    }

    #[test]
    fn a_pause_saves_no_more_than_the_burst() {
        let mut rate = Rate::new(SETTINGS);
        let later = Instant::from_secs(1000);
        let taken = (0..100).filter(|_| rate.take(later).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn waits_are_in_order_and_bounded() {
        let mut rate = Rate::new(Settings {
            wait: Duration::from_millis(250),
            ..SETTINGS
        });
        let waits: Vec<_> = (0..7).map(|_| rate.take(Instant::ZERO)).collect();
        let millis = Duration::from_millis;
        assert_eq!(waits[2..5], [Ok(millis(0)), Ok(millis(100)), Ok(millis(200))]);
        assert_eq!(waits[5..], [Err(millis(300)), Err(millis(300))]);
        rate.give_back();
        assert_eq!(rate.take(Instant::ZERO), Ok(millis(200)));
    }

    /// Counted by hand in every span that begins with a call.
    #[test]
    fn no_span_has_more_than_the_rate_and_the_burst() {
        let mut rate = Rate::new(Settings { calls: 7, ..SETTINGS });
        let mut taken = Vec::new();
        // Calls at uneven times: steps of 1 to 97 ms.
        let mut at = 0;
        for step in 0..2000_u64 {
            at += 1 + (step * 61) % 97;
            if rate.take(Instant::from_millis(at)).is_ok() {
                taken.push(at);
            }
        }
        assert!(taken.len() > 500);
        for (first, from) in taken.iter().enumerate() {
            for (count, until) in taken[first..].iter().enumerate().take(50) {
                let allowed = 3.0 + 7.0 * (until - from) as f64 / 1000.0;
                assert!((count + 1) as f64 <= allowed + 1e-6, "{from} to {until}");
            }
        }
    }

    #[test]
    fn hostile_settings_neither_divide_by_zero_nor_overflow() {
        let mut rate = Rate::new(Settings {
            calls: 0,
            per: Duration::MAX,
            burst: 0,
            wait: Duration::ZERO,
        });
        assert_eq!(rate.take(Instant::ZERO), Ok(Duration::ZERO));
        assert!(rate.take(Instant::from_secs(1)).is_err());
        assert!(
            Rate::new(Settings {
                calls: u32::MAX,
                per: Duration::ZERO,
                ..SETTINGS
            })
            .take(Instant::NEVER)
            .is_ok()
        );
    }
}
