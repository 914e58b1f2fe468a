//! How long things take.

use std::time::Duration;

use retryguard_core::time::nanos;

use crate::streams::Stream;

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Uniform between two ends.
    Uniform(Duration, Duration),
    /// Normal with a mean and a deviation; what would be negative counts by its size.
    Normal(Duration, Duration),
    /// Log-normal, given by its median and its 95th percentile: how latency is known in practice.
    LogNormal(Duration, Duration),
    /// The second with this probability, otherwise the first.
    Mixed(f64, Box<Distribution>, Box<Distribution>),
}

/// The 95 % quantile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_7;

impl Distribution {
    /// No time at all.
    pub const NOTHING: Self = Self::Constant(Duration::ZERO);

    /// Whether it never takes any time.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Whether a share of the draws is of another kind: on a network, messages that get lost.
    #[must_use]
    pub const fn is_mixed(&self) -> bool {
        matches!(self, Self::Mixed(..))
    }

    /// The mean in seconds, without the draws of another kind.
    #[must_use]
    pub fn usual_mean(&self) -> f64 {
        match self {
            Self::Mixed(_, usual, _) => usual.usual_mean(),
            _ => self.mean(),
        }
    }

    /// A draw.
    #[inline]
    pub fn draw(&self, chance: &mut Stream) -> Duration {
        Duration::from_nanos(self.draw_nanos(chance))
    }

    /// A draw, in nanoseconds.
    #[inline]
    pub fn draw_nanos(&self, chance: &mut Stream) -> u64 {
        match self {
            Self::Constant(span) => nanos(*span),
            Self::Exponential(mean) => whole(chance.exponential(as_nanos(*mean))),
            Self::Uniform(low, high) => whole(chance.between(as_nanos(*low), as_nanos(*high))),
            Self::Normal(mean, deviation) => {
                let (mean, deviation) = (mean.as_secs_f64(), deviation.as_secs_f64());
                whole(chance.normal().mul_add(deviation, mean).abs() * 1e9)
            }
            Self::LogNormal(median, p95) => {
                let median = median.as_secs_f64();
                let sigma = (p95.as_secs_f64() / median).ln() / Z95;
                whole(median * (sigma * chance.normal()).exp() * 1e9)
            }
            Self::Mixed(share, usual, rare) => {
                if chance.with_probability(*share) {
                    rare.draw_nanos(chance)
                } else {
                    usual.draw_nanos(chance)
                }
            }
        }
    }

    /// The mean, in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(span) => span.as_secs_f64(),
            Self::Exponential(mean) | Self::Normal(mean, _) => mean.as_secs_f64(),
            Self::Uniform(low, high) => f64::midpoint(low.as_secs_f64(), high.as_secs_f64()),
            Self::LogNormal(median, p95) => {
                let median = median.as_secs_f64();
                let sigma = (p95.as_secs_f64() / median).ln() / Z95;
                median * (sigma * sigma / 2.0).exp()
            }
            Self::Mixed(share, usual, rare) => (1.0 - share).mul_add(usual.mean(), share * rare.mean()),
        }
    }
}

/// A duration in nanoseconds, for arithmetic: a division less than seconds take.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "a draw needs no more than 53 bits")]
fn as_nanos(span: Duration) -> f64 {
    nanos(span) as f64
}

/// Whole nanoseconds.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
fn whole(nanos: f64) -> u64 {
    nanos as u64
}

/// Seconds to a duration, to the nanosecond.
#[inline]
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_nanos(whole(seconds * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{Purpose, Seed};

    #[test]
    fn draws_have_the_mean_that_is_claimed() {
        let ms = Duration::from_millis;
        let all = [
            Distribution::Constant(ms(100)),
            Distribution::Exponential(ms(100)),
            Distribution::Uniform(ms(80), ms(120)),
            Distribution::Normal(ms(100), ms(20)),
            Distribution::LogNormal(ms(100), ms(300)),
            Distribution::Mixed(
                0.1,
                Box::new(Distribution::Constant(ms(3000))),
                Box::new(Distribution::Exponential(ms(20_000))),
            ),
        ];
        for distribution in all {
            let mut stream = Seed(1).stream(0, Purpose::Service);
            let draws = 200_000;
            let sum: f64 = (0..draws)
                .map(|_| distribution.draw(&mut stream).as_secs_f64())
                .sum();
            let (found, claimed) = (sum / f64::from(draws), distribution.mean());
            assert!(
                (found / claimed - 1.0).abs() < 0.02,
                "{distribution:?}: {found} for {claimed}"
            );
        }
    }
}
