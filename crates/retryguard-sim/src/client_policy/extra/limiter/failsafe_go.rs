//! failsafe-go's adaptive limiter: a high quantile of recent latencies beside a slowly moving baseline, and the correlation of
//! concurrency with throughput and with latency.

use std::time::Duration;

use retryguard_core::Instant;

use super::{Average, End, Sample, log10, quantile};

const INITIAL: f64 = 20.0;
const LIMITS: (f64, f64) = (1.0, 200.0);
/// The limit is at most this many times what is in flight.
const MOST_FACTOR: f64 = 5.0;
const WINDOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const LEAST_SAMPLES: usize = 50;
const QUANTILE: f64 = 0.9;
const CORRELATED: usize = 50;
const WARM_UP: usize = 10;
const MEDIAN_OF: usize = 5;

#[derive(Debug)]
pub(super) struct FailsafeGo {
    limit: f64,
    recent: Vec<f64>,
    shortest: Duration,
    most: u32,
    ends: Instant,
    last: Vec<f64>,
    smoothed: Average,
    baseline: Average,
    /// Concurrency, throughput and latency of recent windows.
    windows: Vec<[f64; 3]>,
}

impl Default for FailsafeGo {
    fn default() -> Self {
        Self {
            limit: INITIAL,
            recent: Vec::new(),
            shortest: Duration::MAX,
            most: 0,
            ends: Instant::ZERO,
            last: Vec::new(),
            smoothed: Average::over(5.0),
            baseline: Average::over(10.0),
            windows: Vec::new(),
        }
    }
}

impl FailsafeGo {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit is small and positive"
    )]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// `used` are in flight with this one.
    pub(super) fn on_sample(&mut self, sample: &Sample, used: usize) {
        if sample.end != End::TimedOut {
            self.recent.push(sample.nanos());
            self.shortest = self.shortest.min(sample.took());
            self.most = self.most.max(sample.in_flight);
        }
        if sample.now <= self.ends || self.recent.len() < LEAST_SAMPLES {
            return;
        }
        let high = quantile(&mut self.recent, QUANTILE);
        let latency = self.smoothed.add(median(&mut self.last, high));
        self.update(latency, f64::from(self.most), used >= self.limit() as usize);
        let window = (2 * self.shortest).max(WINDOW.0).min(WINDOW.1);
        self.ends = sample.now.after(window);
        self.recent.clear();
        self.shortest = Duration::MAX;
        self.most = 0;
    }

    fn update(&mut self, latency: f64, in_flight: f64, full: bool) {
        let queue = (self.limit * (1.0 - self.baseline.add(latency) / latency)).ceil();
        if self.windows.len() == CORRELATED {
            self.windows.remove(0);
        }
        self.windows
            .push([in_flight, in_flight / (latency / 1e9), latency]);
        let (throughput, varies) = correlation(&self.windows, 1);
        let (slower, _) = correlation(&self.windows, 2);
        let step = log10(self.limit);
        let overloaded =
            full && (throughput < 0.0 || throughput < 0.3 && slower > 0.5 || varies < 0.2 && slower > 0.5);
        let mut limit = if queue > 6.0 * step || overloaded {
            self.limit - step
        } else if queue < 3.0 * step {
            self.limit + step
        } else {
            self.limit
        };
        if limit > in_flight * MOST_FACTOR {
            limit = self.limit - step;
        }
        self.limit = limit.clamp(LIMITS.0, LIMITS.1);
    }
}

/// The median of the last five values, and the value itself while there are fewer.
fn median(last: &mut Vec<f64>, value: f64) -> f64 {
    if last.len() == MEDIAN_OF {
        last.remove(0);
    }
    last.push(value);
    if last.len() < MEDIAN_OF {
        return value;
    }
    quantile(&mut last.clone(), 0.5)
}

/// The correlation of concurrency with another value of the windows, and that value's coefficient of variation. Nothing before
/// there are enough windows, and no correlation where one of the two hardly varies.
#[expect(clippy::cast_precision_loss, reason = "a few windows")]
fn correlation(windows: &[[f64; 3]], other: usize) -> (f64, f64) {
    const LEAST_VARIATION: f64 = 0.01;
    if windows.len() < WARM_UP {
        return (0.0, 0.0);
    }
    let n = windows.len() as f64;
    let mean = |of: &dyn Fn(&[f64; 3]) -> f64| windows.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|it| it[0]), mean(&|it| it[other]));
    let deviation = |index: usize, mean_of: f64| mean(&|it| (it[index] - mean_of).powi(2)).sqrt();
    let (dx, dy) = (deviation(0, x), deviation(other, y));
    if dx / x < LEAST_VARIATION || dy / y < LEAST_VARIATION {
        return (0.0, dy / y);
    }
    let covariance = mean(&|it| (it[0] - x) * (it[other] - y));
    (covariance / (dx * dy), dy / y)
}
