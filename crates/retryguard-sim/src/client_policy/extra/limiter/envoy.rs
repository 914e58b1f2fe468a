//! Envoy's gradient controller: the limit follows the ratio of the latency at a very low concurrency, measured once a minute, to
//! the present one.
//!
//! The numbers are the defaults of its configuration; the two intervals, which have none, are those of its documentation.

use std::time::Duration;

use retryguard_core::Instant;

use super::{End, LEAST, Sample, quantile};
use crate::{distribution::seconds, streams::Stream};

const LIMITS: (u32, u32) = (3, 1000);
const MEASURE_EVERY: f64 = 60.0;
const JITTER: f64 = 0.15;
const UPDATE_EVERY: Duration = Duration::from_millis(100);
const MEASURED_REQUESTS: usize = 50;
const PERCENTILE: f64 = 0.5;
const BUFFER: f64 = 1.25;
/// So many updates in a row to the least limit ask for a new measurement.
const LEAST_IN_A_ROW: u32 = 5;

#[derive(Debug)]
pub(super) struct EnvoyAdaptive {
    limit: u32,
    /// The limit that comes back when the measurement ends; `None` while none runs.
    put_aside: Option<u32>,
    samples: Vec<f64>,
    ideal: f64,
    /// What began before the last measurement did is not a sample.
    epoch: Instant,
    next_measurement: Instant,
    next_update: Instant,
    at_least: u32,
    chance: Stream,
}

impl EnvoyAdaptive {
    pub(super) const fn new(chance: Stream) -> Self {
        Self {
            limit: LIMITS.0,
            put_aside: Some(LIMITS.0),
            samples: Vec::new(),
            ideal: 0.0,
            epoch: Instant::ZERO,
            next_measurement: Instant::NEVER,
            next_update: Instant::NEVER,
            at_least: 0,
            chance,
        }
    }

    pub(super) fn limit(&mut self, now: Instant) -> u32 {
        self.advance(now);
        self.limit
    }

    /// A call that its caller gave up is not a sample.
    pub(super) fn on_sample(&mut self, sample: &Sample) {
        self.advance(sample.now);
        if sample.began < self.epoch || sample.end == End::TimedOut {
            return;
        }
        self.samples.push(sample.nanos());
        if self.samples.len() >= MEASURED_REQUESTS
            && let Some(limit) = self.put_aside.take()
        {
            self.ideal = self.take_quantile();
            (self.limit, self.at_least) = (limit, 0);
            let wait = MEASURE_EVERY * (1.0 + JITTER * self.chance.uniform());
            self.next_measurement = sample.now.after(seconds(wait));
            self.next_update = sample.now.after(UPDATE_EVERY);
        }
    }

    /// What has fallen due since the last time.
    fn advance(&mut self, now: Instant) {
        if self.put_aside.is_some() {
            return;
        }
        if now >= self.next_update {
            let late = now.since(self.next_update).as_nanos() / UPDATE_EVERY.as_nanos();
            let periods = u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
            self.next_update = self.next_update.after(UPDATE_EVERY.saturating_mul(periods));
            if !self.samples.is_empty() {
                let present = self.take_quantile();
                self.set(self.wanted(present), now);
            }
        }
        if now >= self.next_measurement {
            self.put_aside = Some(self.limit);
            self.limit = LIMITS.0;
            self.at_least = 0;
            self.samples.clear();
            self.epoch = now;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    fn wanted(&self, present: f64) -> u32 {
        let gradient = (BUFFER * self.ideal / present).clamp(0.5, 2.0);
        let limit = f64::from(self.limit) * gradient;
        ((limit + limit.sqrt()) as u32).clamp(LIMITS.0, LIMITS.1)
    }

    fn set(&mut self, limit: u32, now: Instant) {
        let stays = self.limit == LIMITS.0 && limit == LIMITS.0;
        self.at_least = if stays { self.at_least + 1 } else { 0 };
        self.limit = limit;
        if self.at_least >= LEAST_IN_A_ROW {
            self.next_measurement = now;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a hundred microseconds")]
    fn take_quantile(&mut self) -> f64 {
        let found = quantile(&mut self.samples, PERCENTILE).max(LEAST.as_nanos() as f64);
        self.samples.clear();
        found
    }
}
