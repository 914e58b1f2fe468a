//! What was observed, in windows of time.

use std::time::Duration;

/// What was observed of a service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// The windows, in the order of time and of equal length.
    pub windows: Vec<Window>,
    /// The length of each.
    pub every: Duration,
}

/// One window of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// Requests that were answered.
    pub requests: f64,
    /// Of these, failures.
    pub failures: f64,
    /// Upper bounds of latencies in seconds, rising, with how many requests took at most so long.
    pub buckets: Vec<(f64, f64)>,
    /// The sum of all latencies, in seconds.
    pub seconds: f64,
}

/// A log-normal time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogNormal {
    /// The median in seconds.
    pub(crate) median: f64,
    /// The deviation of the logarithm.
    pub(crate) sigma: f64,
}

/// The quantile of 95 % of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951;

impl LogNormal {
    pub(crate) fn mean(self) -> f64 {
        self.median * (self.sigma * self.sigma / 2.0).exp()
    }

    pub(crate) fn p95(self) -> f64 {
        self.median * (Z95 * self.sigma).exp()
    }

    fn below(self, bound: f64) -> f64 {
        normal((bound / self.median).ln() / self.sigma)
    }
}

/// The standard normal distribution, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17).
fn normal(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
        * t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    if x > 0.0 { 1.0 - tail } else { tail }
}

impl Observed {
    /// How long it was observed.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.every * u32::try_from(self.windows.len()).unwrap_or(u32::MAX)
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.windows.iter().map(|window| window.requests).sum()
    }

    /// The share of requests that failed.
    #[must_use]
    pub fn failing(&self) -> f64 {
        let failures: f64 = self.windows.iter().map(|window| window.failures).sum();
        (failures / self.requests().max(1e-9)).clamp(0.0, 1.0)
    }

    /// The mean latency in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let seconds: f64 = self.windows.iter().map(|window| window.seconds).sum();
        seconds / self.requests().max(1e-9)
    }

    /// A quantile of the latencies in seconds; in a straight line between two bounds.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let buckets = self.buckets();
        let Some((_, all)) = buckets.last().copied() else {
            return 0.0;
        };
        let wanted = share * all;
        let mut before = (0.0, 0.0);
        for (bound, below) in buckets {
            if below >= wanted {
                // Beyond the last finite bound nothing is known.
                if !bound.is_finite() {
                    return before.0;
                }
                let part = (wanted - before.1) / (below - before.1).max(1e-9);
                return before.0 + (bound - before.0) * part.clamp(0.0, 1.0);
            }
            before = (bound, below);
        }
        before.0
    }

    /// Requests a second in the busiest window.
    pub(crate) fn busiest_rate(&self) -> f64 {
        let seconds = self.every.as_secs_f64().max(1e-9);
        self.windows
            .iter()
            .map(|window| window.requests / seconds)
            .fold(0.0, f64::max)
    }

    /// Successful requests a second.
    pub(crate) fn served_rate(&self) -> f64 {
        self.requests() * (1.0 - self.failing()) / self.length().as_secs_f64().max(1e-9)
    }

    /// The third of the windows in which the mean latency is lowest: there hardly a request waits.
    pub(crate) fn calm(&self) -> Self {
        let mut windows: Vec<&Window> = self
            .windows
            .iter()
            .filter(|window| window.requests >= 1.0 && window.failures < 0.5 * window.requests)
            .collect();
        windows.sort_by(|a, b| a.mean().total_cmp(&b.mean()));
        let most = windows.len().div_ceil(3);
        self.of(windows.into_iter().take(most))
    }

    /// The windows in which half of the requests took twice as long as the work; none where there are none. Of these the first
    /// and the last are left out where there are more: they are saturated in part.
    pub(crate) fn saturated(&self, work: &LogNormal) -> Option<Self> {
        let full = |window: &&Window| {
            let one = self.of(std::iter::once(*window));
            window.requests >= 1.0 && one.quantile(0.5) > 2.0 * work.median
        };
        let windows: Vec<&Window> = self.windows.iter().filter(full).collect();
        let inner = if windows.len() > 3 {
            &windows[1..windows.len() - 1]
        } else {
            &windows[..]
        };
        (!inner.is_empty()).then(|| self.of(inner.iter().copied()))
    }

    /// The time of the work: the log-normal with the observed mean whose shares below the bounds are closest to those that
    /// were observed. Coarse bounds leave several as good; the widest of them is taken.
    pub(crate) fn work(&self) -> Option<LogNormal> {
        let buckets = self.buckets();
        let all = buckets.last().map(|(_, all)| *all).filter(|all| *all > 0.0)?;
        let mean = self.mean();
        if mean <= 0.0 {
            return None;
        }
        let tried: Vec<(f64, LogNormal)> = (1..=100)
            .map(|step| {
                let sigma = f64::from(step) * 0.02;
                let time = LogNormal {
                    median: mean / (sigma * sigma / 2.0).exp(),
                    sigma,
                };
                let distance = buckets
                    .iter()
                    .filter(|(bound, _)| bound.is_finite())
                    .map(|(bound, below)| (time.below(*bound) - below / all).powi(2))
                    .sum();
                (distance, time)
            })
            .collect();
        let least = tried
            .iter()
            .map(|(distance, _)| *distance)
            .fold(f64::INFINITY, f64::min);
        tried
            .iter()
            .rev()
            .find(|(distance, _)| *distance <= least + 5e-4)
            .map(|(_, time)| *time)
    }

    fn of<'w>(&self, windows: impl Iterator<Item = &'w Window>) -> Self {
        Self {
            windows: windows.cloned().collect(),
            every: self.every,
        }
    }

    /// The buckets of all windows together.
    fn buckets(&self) -> Vec<(f64, f64)> {
        let mut sum: Vec<(f64, f64)> = Vec::new();
        for window in &self.windows {
            for (index, (bound, below)) in window.buckets.iter().enumerate() {
                match sum.get_mut(index) {
                    Some((_, all)) => *all += below,
                    None => sum.push((*bound, *below)),
                }
            }
        }
        sum
    }
}

impl Window {
    fn mean(&self) -> f64 {
        self.seconds / self.requests.max(1e-9)
    }
}
