//! When a second attempt is sent beside a slow first one.

use std::time::Duration;

use crate::{latency::Latencies, ratio::Ratio};

/// Extra attempts against a slow tail. They are paid from the same budget as retries, and the losers are
/// cancelled as soon as one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long the attempt before may take.
    pub after: After,
    /// How many hedges one call may send; at most [`Settings::MOST`].
    pub most: u8,
}

impl Settings {
    /// The largest number of hedges of one call: a call keeps its running attempts in a fixed place.
    pub const MOST: u8 = 3;
}

/// What a hedge waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// A fixed time.
    Fixed(Duration),
    /// The time within which this share of attempts is answered, so that only the tail is hedged. Until
    /// enough answers are known, and never sooner than `at_least`, that time is waited.
    Percentile {
        /// The share, such as 95 %.
        share: Ratio,
        /// The floor.
        at_least: Duration,
    },
}

/// Knows how long to wait before a hedge.
#[derive(Debug, Clone)]
pub struct Hedge {
    settings: Settings,
    latencies: Option<Latencies>,
    /// The percentile as it was last computed: walking the histogram for every call would be a waste.
    cached: Option<Duration>,
    until_refresh: u32,
}

impl Hedge {
    /// Answers that must be known before a percentile means anything.
    const ENOUGH: u32 = 100;
    /// Answers between two computations of the percentile.
    const REFRESH: u32 = 64;

    /// Without any answer known.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let latencies = matches!(settings.after, After::Percentile { .. }).then(Latencies::default);
        Self {
            settings,
            latencies,
            cached: None,
            until_refresh: Self::ENOUGH,
        }
    }

    /// Changes the settings and keeps the latencies.
    pub fn replace(&mut self, settings: Settings) {
        let kept = self.latencies.take();
        *self = Self::new(settings);
        if self.latencies.is_some() && kept.is_some() {
            self.latencies = kept;
            self.refresh();
        }
    }

    /// An attempt was answered well.
    #[inline]
    pub fn on_success(&mut self, latency: Duration) {
        if let Some(latencies) = &mut self.latencies {
            latencies.add(latency);
            self.until_refresh -= 1;
            if self.until_refresh == 0 {
                self.refresh();
            }
        }
    }

    fn refresh(&mut self) {
        self.until_refresh = Self::REFRESH;
        if let (Some(latencies), After::Percentile { share, .. }) = (&self.latencies, self.settings.after)
            && latencies.len() >= Self::ENOUGH
        {
            self.cached = latencies.quantile(share);
        }
    }

    /// How long to wait for the attempt before.
    #[must_use]
    pub fn delay(&self) -> Duration {
        match self.settings.after {
            After::Fixed(delay) => delay,
            After::Percentile { at_least, .. } => self.cached.unwrap_or(at_least).max(at_least),
        }
    }

    /// How many hedges one call may send.
    #[must_use]
    pub fn most(&self) -> u8 {
        self.settings.most.min(Settings::MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_millis(5);

    #[test]
    fn a_percentile_counts_once_enough_is_known() {
        let after = After::Percentile {
            share: Ratio::percent(95),
            at_least: FLOOR,
        };
        let mut hedge = Hedge::new(Settings { after, most: 1 });
        (0..99).for_each(|_| hedge.on_success(Duration::from_millis(50)));
        assert_eq!(hedge.delay(), FLOOR);
        hedge.on_success(Duration::from_millis(50));
        assert!(hedge.delay() >= Duration::from_millis(50));
        hedge.replace(Settings { after, most: 2 });
        assert!(
            hedge.delay() >= Duration::from_millis(50),
            "new settings keep what is known"
        );
    }

    #[test]
    fn a_fast_target_is_not_hedged_before_the_floor() {
        let after = After::Percentile {
            share: Ratio::percent(95),
            at_least: FLOOR,
        };
        let mut hedge = Hedge::new(Settings { after, most: 1 });
        (0..200).for_each(|_| hedge.on_success(Duration::from_micros(10)));
        assert_eq!(hedge.delay(), FLOOR);
    }
}
