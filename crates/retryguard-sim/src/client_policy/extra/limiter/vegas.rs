//! Netflix's `VegasLimit`: the queue is estimated from the ratio of the shortest latency to the present one.

use super::{End, Sample, log10};
use crate::streams::Stream;

const INITIAL: f64 = 20.0;
const MOST: f64 = 1000.0;
/// The shortest latency is taken anew every so many samples, times the limit.
const PROBE: f64 = 30.0;

#[derive(Debug)]
pub(super) struct Vegas {
    limit: f64,
    shortest: f64,
    samples: f64,
    jitter: f64,
    chance: Stream,
}

impl Vegas {
    pub(super) fn new(mut chance: Stream) -> Self {
        Self {
            limit: INITIAL,
            shortest: 0.0,
            samples: 0.0,
            jitter: chance.between(0.5, 1.0),
            chance,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit is small and positive"
    )]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    pub(super) fn on_sample(&mut self, sample: &Sample) {
        if sample.end == End::Failed {
            return;
        }
        let latency = sample.nanos();
        self.samples += 1.0;
        if self.jitter * PROBE * self.limit <= self.samples {
            self.jitter = self.chance.between(0.5, 1.0);
            self.samples = 0.0;
            self.shortest = latency;
            return;
        }
        if self.shortest == 0.0 || latency < self.shortest {
            self.shortest = latency;
            return;
        }
        let queue = (self.limit * (1.0 - self.shortest / latency)).ceil();
        let step = log10(self.limit);
        let dropped = matches!(sample.end, End::Rejected | End::TimedOut);
        let change = if dropped {
            -step
        } else if f64::from(sample.in_flight) * 2.0 < self.limit {
            return;
        } else if queue <= step {
            6.0 * step
        } else if queue < 3.0 * step {
            step
        } else if queue > 6.0 * step {
            -step
        } else {
            return;
        };
        self.limit = (self.limit + change).clamp(1.0, MOST);
    }
}
