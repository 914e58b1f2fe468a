//! How long answers take: lately, usually, and at most.

use std::time::Duration;

use crate::{ratio::Ratio, time::Instant};

/// The latency of a target, read from its successes.
///
/// Failures say nothing here: a rejection is fast whatever the queue, and a timeout may be a lost packet. So a share of
/// random failures or random timeouts changes nothing.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// The latency of recent successes, in nanoseconds; zero where there are none yet.
    recent: f64,
    /// The usual latency: a long average of whole batches that falls fast and rises slowly.
    usual: f64,
    /// The time that first attempts are allowed, in nanoseconds; zero where it is not known.
    allowed: f64,
    batch: f64,
    batched: u8,
    batch_size: u8,
    last_end: Instant,
    /// The latency of the last success.
    last: f64,
    /// The variance of the recent latency, in variances of a single one.
    noise: f64,
}

/// Of how many successes the recent latency is averaged.
const RECENT: f64 = 1.0 / 16.0;
/// Successes in a batch; the first ones are smaller, so that a client with few calls knows something soon.
const BATCH: u8 = 32;
const FIRST_BATCH: u8 = 8;
/// How many times the recent latency an attempt should have left: one in a hundred of exponential times is longer.
const MARGIN: f64 = 5.0;
/// Answers that take so many times as long as usual come from a queue.
const SLOW: f64 = 1.5;
/// And so many standard errors of the recent latency more than usual, where times vary as much as exponential ones do: an
/// average of few answers is often above what is usual.
const CERTAIN: f64 = 2.0;
/// How far the usual latency follows a batch that is faster, and one that is slower.
const FALL: f64 = 0.25;
const RISE: f64 = 0.02;

impl Default for Pace {
    fn default() -> Self {
        Self {
            recent: 0.0,
            usual: 0.0,
            allowed: 0.0,
            batch: 0.0,
            batched: 0,
            batch_size: FIRST_BATCH,
            last_end: Instant::ZERO,
            last: 0.0,
            noise: RECENT / (2.0 - RECENT),
        }
    }
}

impl Pace {
    /// An attempt has ended. Returns the weight of this attempt in a recent average: where answers are rare each of
    /// them counts for more, because what was read before is old. Times are in nanoseconds: a `Duration` would be taken
    /// apart and put together again with every call.
    #[inline]
    pub(crate) fn on_end(&mut self, success: bool, latency: u64, allowed: Option<u64>, now: Instant) -> f64 {
        let gap = now.nanos_since(self.last_end) as f64 * 1e-9;
        self.last_end = now;
        let weight = larger(RECENT, smaller(gap * 0.5, 0.5));
        if let Some(allowed) = allowed {
            // Held near its peak: calls that waited somewhere before have less time left, and what they are left is
            // not what calls need.
            let allowed = allowed as f64;
            self.allowed = larger(allowed, self.allowed * (1.0 - RECENT / 64.0));
        }
        if success {
            let latency = latency as f64;
            self.last = latency;
            let weight = if latency < self.recent {
                larger(weight, 0.125)
            } else {
                weight
            };
            let kept = 1.0 - weight;
            self.noise = kept * kept * self.noise + weight * weight;
            follow(&mut self.recent, latency, weight);
            self.batch += latency;
            self.batched += 1;
            if self.batched >= self.batch_size {
                self.end_batch();
            }
        }
        weight
    }

    /// The latency of recent successes; zero where there are none yet.
    #[inline]
    pub(crate) const fn recent(&self) -> f64 {
        self.recent
    }

    /// The usual latency; zero where too few have been seen.
    #[inline]
    pub(crate) const fn usual(&self) -> f64 {
        self.usual
    }

    /// The time that attempts are allowed; zero where it is not known.
    #[inline]
    pub(crate) const fn allowed(&self) -> f64 {
        self.allowed
    }

    /// The same as a duration.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn allowed_span(&self) -> Duration {
        Duration::from_nanos(self.allowed as u64)
    }

    /// How much slower than usual answers are; one where that is not known.
    #[inline]
    pub(crate) fn slower(&self) -> f64 {
        if self.usual > 0.0 {
            self.recent / self.usual
        } else {
            1.0
        }
    }

    /// Whether answers take so much longer than usual that a queue must be the cause.
    #[inline]
    pub(crate) fn is_slow(&self) -> bool {
        let slower = self.slower();
        slower > SLOW && slower > 1.0 + CERTAIN * self.noise.sqrt()
    }

    /// Whether answers take a smaller share of the time of an attempt than that from which on they are late. A timeout beside such
    /// answers is a lost message and no queue.
    #[inline]
    pub(crate) fn is_quick(&self, late: Ratio) -> bool {
        self.recent > 0.0 && self.recent < late.as_f64() * self.allowed
    }

    /// The latency of the last success; zero where there is none yet.
    #[inline]
    pub(crate) const fn last(&self) -> f64 {
        self.last
    }

    /// Whether the last success was about as fast as usual: nothing stood in its way.
    #[inline]
    pub(crate) fn last_was_usual(&self) -> bool {
        self.last < 2.0 * self.usual
    }

    /// How much time a call that waits should keep for its attempt.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn margin(&self) -> Duration {
        Duration::from_nanos((MARGIN * self.recent) as u64)
    }

    /// After how long a silence an attempt is well and truly late: most of the time that callers usually give, and twice
    /// what an answer usually takes. Nothing where either is not known.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn enough(&self) -> Option<Duration> {
        let known = self.usual > 0.0 && self.allowed > 0.0;
        known.then(|| Duration::from_nanos((0.75 * self.allowed).max(2.0 * self.usual) as u64))
    }

    /// How much time must be left so that an attempt is not hopeless.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn least_margin(&self) -> Duration {
        Duration::from_nanos(self.recent as u64)
    }

    #[cold]
    fn end_batch(&mut self) {
        let mean = self.batch / f64::from(self.batched);
        let share = if mean < self.usual { FALL } else { RISE };
        follow(&mut self.usual, mean, share);
        (self.batch, self.batched) = (0.0, 0);
        self.batch_size = (2 * self.batch_size).clamp(FIRST_BATCH, BATCH);
    }
}

/// The larger of two numbers. One instruction: `f64::max` also says what becomes of a NaN, and there is none here.
#[inline]
pub(crate) const fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers.
#[inline]
pub(crate) const fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Moves an average a share of the way to a value; the first value is taken whole.
#[inline]
fn follow(average: &mut f64, value: f64, share: f64) {
    *average += (value - *average) * if *average == 0.0 { 1.0 } else { share };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that take 50 ms and 250 ms in turn, so many milliseconds apart: how often they are called slow.
    fn varied(gap: u64) -> u32 {
        let mut pace = Pace::default();
        let mut slow = 0;
        for number in 0..400_u64 {
            let now = Instant::from_millis(number * gap);
            let latency = if number % 2 == 0 { 50_000_000 } else { 250_000_000 };
            pace.on_end(true, latency, None, now);
            slow += u32::from(pace.is_slow());
        }
        slow
    }

    #[test]
    fn the_average_of_a_few_answers_is_not_called_slow_by_chance() {
        assert_eq!(varied(10), 0);
        assert_eq!(varied(2000), 0);
    }

    #[test]
    fn answers_that_take_three_times_as_long_are_slow_at_any_rate() {
        for gap in [10, 2000] {
            let mut pace = Pace::default();
            for number in 0..200_u64 {
                let latency = if number < 100 { 50_000_000 } else { 150_000_000 };
                pace.on_end(true, latency, None, Instant::from_millis(number * gap));
            }
            assert!(pace.is_slow(), "{gap}");
        }
    }
}
