//! Adaptive limits on concurrency of other projects.
//!
//! An attempt above the limit fails at once, without being sent. Written anew from the public descriptions and the public
//! behaviour of each; the numbers are their defaults.

mod envoy;
mod failsafe_go;
mod gradient2;
mod vegas;

use std::{collections::HashMap, time::Duration};

use retryguard_core::Instant;

use crate::streams::Stream;
use envoy::EnvoyAdaptive;
use failsafe_go::FailsafeGo;
use gradient2::Gradient2;
use vegas::Vegas;

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adaptive {
    /// Netflix concurrency-limits, `Gradient2Limit` in windows of a second.
    Gradient2,
    /// Netflix concurrency-limits, `VegasLimit`.
    Vegas,
    /// failsafe-go's adaptive limiter.
    FailsafeGo,
    /// Envoy's adaptive concurrency filter with its gradient controller.
    Envoy,
}

/// How an attempt or a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    /// Rejected for load.
    Rejected,
    /// No answer came in time.
    TimedOut,
    Failed,
}

/// What ended, as an algorithm sees it.
#[derive(Debug, Clone, Copy)]
struct Sample {
    began: Instant,
    now: Instant,
    /// In flight when it began, itself included.
    in_flight: u32,
    end: End,
}

#[derive(Debug)]
enum Algorithm {
    Gradient2(Gradient2),
    Vegas(Vegas),
    FailsafeGo(FailsafeGo),
    Envoy(EnvoyAdaptive),
}

/// The limit of one client.
#[derive(Debug)]
pub(crate) struct Limiter {
    algorithm: Algorithm,
    /// What is in flight, by the number of its call: when it began, and how many were in flight with it.
    open: HashMap<u64, (Instant, u32)>,
    retries: u32,
}

impl Limiter {
    /// Envoy's default bound on concurrent retries, which stands beside its limit.
    const ENVOY_RETRIES: u32 = 3;

    pub(super) fn new(which: Adaptive, chance: Stream) -> Self {
        let algorithm = match which {
            Adaptive::Gradient2 => Algorithm::Gradient2(Gradient2::default()),
            Adaptive::Vegas => Algorithm::Vegas(Vegas::new(chance)),
            Adaptive::FailsafeGo => Algorithm::FailsafeGo(FailsafeGo::default()),
            Adaptive::Envoy => Algorithm::Envoy(EnvoyAdaptive::new(chance)),
        };
        Self {
            algorithm,
            open: HashMap::new(),
            retries: 0,
        }
    }

    /// Envoy's filter stands before its retries: it counts whole calls. The others stand below the retries.
    const fn counts_calls(&self) -> bool {
        matches!(self.algorithm, Algorithm::Envoy(_))
    }

    /// Whether an attempt of a call may be sent.
    #[expect(clippy::cast_possible_truncation, reason = "a limit is small")]
    pub(super) fn admit(&mut self, call: u64, now: Instant) -> bool {
        if self.open.contains_key(&call) {
            return true;
        }
        let limit = match &mut self.algorithm {
            Algorithm::Gradient2(it) => it.limit(),
            Algorithm::Vegas(it) => it.limit(),
            Algorithm::FailsafeGo(it) => it.limit(),
            Algorithm::Envoy(it) => it.limit(now),
        };
        let in_flight = self.open.len() as u32;
        if in_flight >= limit {
            return false;
        }
        self.open.insert(call, (now, in_flight + 1));
        true
    }

    /// An attempt of a call has ended.
    pub(super) fn on_attempt_end(&mut self, call: u64, end: End, now: Instant) {
        if !self.counts_calls() {
            self.close(call, end, now);
        }
    }

    /// A call has ended; what it still held is free.
    pub(super) fn on_call_end(&mut self, call: u64, end: End, now: Instant) {
        self.close(call, end, now);
    }

    /// Whether a call may be retried.
    pub(super) fn allow_retry(&mut self, call: u64) -> bool {
        if !self.counts_calls() {
            return true;
        }
        let allowed = self.open.contains_key(&call) && self.retries < Self::ENVOY_RETRIES;
        self.retries += u32::from(allowed);
        allowed
    }

    pub(super) fn on_retry_end(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }

    fn close(&mut self, call: u64, end: End, now: Instant) {
        let Some((began, in_flight)) = self.open.remove(&call) else {
            return;
        };
        let sample = Sample {
            began,
            now,
            in_flight,
            end,
        };
        let full = self.open.len() + 1;
        match &mut self.algorithm {
            Algorithm::Gradient2(it) => it.on_sample(&sample),
            Algorithm::Vegas(it) => it.on_sample(&sample),
            Algorithm::FailsafeGo(it) => it.on_sample(&sample, full),
            Algorithm::Envoy(it) => it.on_sample(&sample),
        }
    }
}

impl Sample {
    fn took(&self) -> Duration {
        self.now.since(self.began)
    }

    /// Nanoseconds, at least one hundred microseconds: no answer over a network comes sooner.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a call")]
    fn nanos(&self) -> f64 {
        self.took().max(LEAST).as_nanos() as f64
    }
}

/// Shorter times are not times of an answer over a network.
const LEAST: Duration = Duration::from_micros(100);

/// The whole part of the common logarithm, at least one.
fn log10(limit: f64) -> f64 {
    limit.max(1.0).log10().floor().max(1.0)
}

/// A moving average that begins as the mean of its first ten values.
#[derive(Debug, Clone, Copy)]
struct Average {
    value: f64,
    count: u32,
    factor: f64,
}

impl Average {
    const FIRST: u32 = 10;

    /// Over so many values.
    const fn over(window: f64) -> Self {
        Self {
            value: 0.0,
            count: 0,
            factor: 2.0 / (window + 1.0),
        }
    }

    fn add(&mut self, sample: f64) -> f64 {
        let factor = if self.count < Self::FIRST {
            self.count += 1;
            1.0 / f64::from(self.count)
        } else {
            self.factor
        };
        self.value += (sample - self.value) * factor;
        self.value
    }
}

/// The value below which this share of the samples lies. Sorts them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index below the number of samples"
)]
fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let place = (share * (samples.len().saturating_sub(1)) as f64).round() as usize;
    samples.get(place).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{Purpose, Seed};

    const ALL: [Adaptive; 4] = [
        Adaptive::Gradient2,
        Adaptive::Vegas,
        Adaptive::FailsafeGo,
        Adaptive::Envoy,
    ];

    fn limiter(which: Adaptive) -> Limiter {
        Limiter::new(which, Seed(1).stream(0, Purpose::Policy))
    }

    /// A target that works on `workers` requests at once, each for 50 ms, before a queue without an end, and a client that
    /// wants to send 400 a second for so many seconds. Says how many it has in flight at the end, the most that its limit
    /// allowed and the share of the capacity that it used in the second half.
    fn drive(limiter: &mut Limiter, workers: usize, seconds: u64) -> (usize, usize, f64) {
        let mut free_at = vec![0_u64; workers];
        let mut ends: Vec<(u64, u64)> = Vec::new();
        let mut most = 0;
        let mut served = 0_u32;
        for tick in 0..seconds * 400 {
            let now = tick * 2_500;
            ends.retain(|&(call, end)| {
                if end <= now {
                    limiter.on_attempt_end(call, End::Success, Instant::from_nanos(end * 1000));
                    limiter.on_call_end(call, End::Success, Instant::from_nanos(end * 1000));
                    served += u32::from(end >= seconds * 500_000);
                }
                end > now
            });
            if limiter.admit(tick, Instant::from_nanos(now * 1000)) {
                let worker = free_at.iter_mut().min().unwrap();
                *worker = (*worker).max(now) + 50_000;
                ends.push((tick, *worker));
            }
            if tick > seconds * 200 {
                most = most.max(ends.len());
            }
        }
        let capacity = workers as f64 * 20.0 * seconds as f64 / 2.0;
        (ends.len(), most, f64::from(served) / capacity)
    }

    #[test]
    fn every_limit_finds_room_below_what_is_asked_and_uses_the_target() {
        for which in ALL {
            // 10 workers serve 200 a second, half of what is asked: without a limit 4000 would wait after 20 seconds.
            let (_, most, used) = drive(&mut limiter(which), 10, 60);
            assert!(most <= 220, "{which:?}: {most} in flight");
            assert!(used > 0.85, "{which:?}: uses {used}");
        }
    }

    #[test]
    fn what_a_limit_refuses_is_never_in_flight_and_what_ended_is_free() {
        for which in ALL {
            let mut limiter = limiter(which);
            let now = Instant::from_secs(1);
            let admitted = (0..1000).filter(|&call| limiter.admit(call, now)).count();
            assert_eq!(
                admitted,
                if which == Adaptive::Envoy { 3 } else { 20 },
                "{which:?}"
            );
            (0..1000).for_each(|call| limiter.on_call_end(call, End::Failed, now));
            assert!(limiter.open.is_empty() && limiter.admit(5000, now), "{which:?}");
        }
    }

    /// Envoy decides once for a call: its retries need no further place, and a call that was refused is not retried.
    #[test]
    fn envoy_counts_calls_and_bounds_their_retries() {
        let mut limiter = limiter(Adaptive::Envoy);
        let now = Instant::from_secs(1);
        assert!((0..3).all(|call| limiter.admit(call, now)) && !limiter.admit(3, now));
        limiter.on_attempt_end(0, End::Rejected, now);
        assert!(limiter.allow_retry(0) && limiter.admit(0, now));
        assert!(!limiter.allow_retry(3));
        assert!(limiter.allow_retry(1) && limiter.allow_retry(2) && !limiter.allow_retry(1));
        limiter.on_retry_end();
        assert!(limiter.allow_retry(1));
    }
}
