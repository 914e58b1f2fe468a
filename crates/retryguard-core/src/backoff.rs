//! How long to wait before a retry.

use std::time::Duration;

use crate::{chance::Chance, ratio::Ratio, time::nanos};

/// The waits between the attempts of one call.
///
/// A *nominal* delay grows with each retry up to a cap, then jitter is laid over it. The cap bounds the
/// nominal delay and not the jittered one: clipping after the jitter would put half of all clients on the
/// cap itself, which is the synchronisation that jitter is there to break. [`Jitter::Decorrelated`] is the
/// exception, because its published definition clips: once its waits have grown to the cap, most of them are
/// the cap. Prefer [`Jitter::Full`].
///
/// ```
/// use std::time::Duration;
///
/// use retryguard_core::{Backoff, backoff::Jitter, chance::Lowest};
///
/// let backoff = Backoff { jitter: Jitter::None, ..Backoff::default() };
/// let waits: Vec<_> = (1..=4).filter_map(|retry| backoff.delay(retry, Duration::ZERO, &mut Lowest)).collect();
/// assert_eq!(waits, [100, 200, 400, 800].map(Duration::from_millis));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How the nominal delay grows.
    pub growth: Growth,
    /// The nominal delay before the first retry.
    pub initial: Duration,
    /// The largest nominal delay.
    pub cap: Duration,
    /// What is laid over the nominal delay.
    pub jitter: Jitter,
    /// Retries end once the nominal delay, as it grows without the cap, exceeds this. A periodic client sets
    /// it to its period: by then the next regular request is due anyway.
    pub stop_beyond: Option<Duration>,
}

/// How a nominal delay grows from one retry to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Always the initial delay.
    Constant,
    /// The initial delay times the number of the retry.
    Linear,
    /// The initial delay times this factor for every retry after the first.
    Exponential(Ratio),
}

/// Randomness laid over a nominal delay `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// None: every client that failed together comes back together.
    None,
    /// Uniform between zero and `d`: the best spread, and the default.
    Full,
    /// `d/2` plus uniform up to `d/2`: keeps half of the wait as a promise.
    Equal,
    /// Uniform between the initial delay and three times the delay before, then clipped at the cap:
    /// `min(cap, U(initial, 3 · previous))`. Replaces the growth.
    Decorrelated,
    /// `d` times a factor drawn uniformly between two bounds, such as 0.5 and 1.5.
    Factor {
        /// The lower bound.
        low: Ratio,
        /// The upper bound.
        high: Ratio,
    },
}

impl Default for Backoff {
    /// 100 ms doubling to 10 s under full jitter.
    fn default() -> Self {
        Self {
            growth: Growth::Exponential(Ratio::from_parts(2 * Ratio::PARTS)),
            initial: Duration::from_millis(100),
            cap: Duration::from_secs(10),
            jitter: Jitter::Full,
            stop_beyond: None,
        }
    }
}

impl Backoff {
    /// The largest nominal delay that the schedule can reach.
    pub(crate) fn ceiling(&self) -> Duration {
        let grows = !self.initial.is_zero() && self.growth != Growth::Constant;
        if grows || self.jitter == Jitter::Decorrelated {
            self.cap
        } else {
            self.initial.min(self.cap)
        }
    }

    /// The wait before retry number `retry` (the first retry is 1), given the wait before the last one
    /// (zero before the first). `None` once the schedule has ended.
    pub fn delay(&self, retry: u32, previous: Duration, chance: &mut impl Chance) -> Option<Duration> {
        self.delay_nanos(retry, nanos(previous), chance)
            .map(Duration::from_nanos)
    }

    /// [`Backoff::delay`] in nanoseconds: what every retry asks for, without a division on the way.
    #[inline]
    pub(crate) fn delay_nanos(&self, retry: u32, previous: u64, chance: &mut impl Chance) -> Option<u64> {
        let cap = nanos(self.cap);
        let nominal = self.nominal(retry.max(1), cap)?;
        Some(match self.jitter {
            Jitter::None => nominal,
            Jitter::Full => chance.nanos_up_to(nominal),
            Jitter::Equal => {
                let half = nominal / 2;
                half + chance.nanos_up_to(nominal - half)
            }
            Jitter::Decorrelated => {
                let base = nanos(self.initial).min(cap);
                let top = previous.max(base).saturating_mul(3);
                base.saturating_add(chance.nanos_up_to(top - base)).min(cap)
            }
            Jitter::Factor { low, high } => {
                let part = |ratio: Ratio| nanos(ratio.of(Duration::from_nanos(nominal)));
                let bottom = part(low);
                bottom.saturating_add(chance.nanos_up_to(part(high).saturating_sub(bottom)))
            }
        })
    }

    /// The longest wait that [`Backoff::delay`] can return for retry number `retry`; zero once the schedule
    /// has ended. For the linter and for predictions.
    #[must_use]
    pub fn longest(&self, retry: u32) -> Duration {
        let mut previous = Duration::ZERO;
        let first = if self.jitter == Jitter::Decorrelated {
            1
        } else {
            retry
        };
        for number in first..=retry {
            previous = self
                .delay(number, previous, &mut crate::chance::Highest)
                .unwrap_or_default();
        }
        previous
    }

    /// The nominal delay in nanoseconds; `None` once the schedule has ended.
    #[inline]
    fn nominal(&self, retry: u32, cap: u64) -> Option<u64> {
        let grown = match self.doubled(retry) {
            Some(doubled) => u128::from(doubled),
            None => self.grown(retry),
        };
        let over = |limit| grown > u128::from(nanos(limit));
        if self.stop_beyond.is_some_and(over) {
            return None;
        }
        Some(u64::try_from(grown).map_or(cap, |grown| grown.min(cap)))
    }

    /// A delay that doubles, as nearly all do, is a shift: [`Backoff::grown`] without its loop, where it has room.
    #[inline]
    fn doubled(&self, retry: u32) -> Option<u64> {
        let initial = nanos(self.initial);
        let doubles =
            matches!(self.growth, Growth::Exponential(factor) if factor.parts() == 2 * Ratio::PARTS);
        (doubles && retry <= initial.leading_zeros()).then(|| initial << (retry - 1))
    }

    /// The nominal delay in nanoseconds, before the cap.
    fn grown(&self, retry: u32) -> u128 {
        let initial = u128::from(nanos(self.initial));
        match self.growth {
            Growth::Constant => initial,
            Growth::Linear => initial.saturating_mul(u128::from(retry)),
            Growth::Exponential(factor) => {
                // Beyond 2^63 ns (292 years) every comparison has the same answer, so growth may stop there.
                let enough = u128::from(u64::MAX / 2);
                let mut delay = initial;
                for _ in 1..retry {
                    let next = divided(delay * u128::from(factor.parts()));
                    if next == delay {
                        break;
                    }
                    delay = next;
                    if delay > enough {
                        break;
                    }
                }
                delay
            }
        }
    }
}

/// A product with a ratio's parts, divided by the parts that make one. Nearly always of 64 bits, which are divided
/// by a constant ten times as fast as 128.
#[inline]
fn divided(product: u128) -> u128 {
    match u64::try_from(product) {
        Ok(product) => u128::from(product / Ratio::PARTS),
        Err(_) => product / u128::from(Ratio::PARTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Highest, Lowest};

    fn millis(backoff: &Backoff, chance: &mut impl Chance) -> Vec<Option<u128>> {
        let mut previous = Duration::ZERO;
        (1..=8)
            .map(|retry| {
                let delay = backoff.delay(retry, previous, chance)?;
                previous = delay;
                Some(delay.as_millis())
            })
            .collect()
    }

    fn plain(growth: Growth) -> Backoff {
        Backoff {
            growth,
            jitter: Jitter::None,
            cap: Duration::from_secs(5),
            ..Backoff::default()
        }
    }

    #[test]
    fn each_growth_up_to_its_cap() {
        let some = |list: [u128; 8]| list.map(Some).to_vec();
        let double = Growth::Exponential(Ratio::from_f64(2.0).unwrap());
        assert_eq!(millis(&plain(Growth::Constant), &mut Lowest), some([100; 8]));
        assert_eq!(
            millis(&plain(Growth::Linear), &mut Lowest),
            some([100, 200, 300, 400, 500, 600, 700, 800])
        );
        assert_eq!(
            millis(&plain(double), &mut Lowest),
            some([100, 200, 400, 800, 1600, 3200, 5000, 5000])
        );
    }

    /// The short way gives what the long one does, up to where it has no room and beyond.
    #[test]
    fn a_shift_is_a_doubling() {
        for initial in [0, 1, 3, 1_000_000_000, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX] {
            let backoff = Backoff {
                initial: Duration::from_nanos(initial),
                ..plain(Growth::Exponential(Ratio::from_f64(2.0).unwrap()))
            };
            for retry in 1..=70 {
                let short = backoff.doubled(retry).map(u128::from);
                assert_eq!(
                    short.unwrap_or_else(|| backoff.grown(retry)),
                    backoff.grown(retry)
                );
            }
            assert_eq!(backoff.doubled(1).is_some(), initial < 1 << 63);
        }
    }

    #[test]
    fn each_jitter_keeps_its_bounds() {
        let with = |jitter| Backoff {
            jitter,
            ..plain(Growth::Constant)
        };
        let ends = |jitter| {
            (
                millis(&with(jitter), &mut Lowest)[0].unwrap(),
                millis(&with(jitter), &mut Highest)[0].unwrap(),
            )
        };
        assert_eq!(ends(Jitter::Full), (0, 100));
        assert_eq!(ends(Jitter::Equal), (50, 100));
        assert_eq!(ends(Jitter::Decorrelated), (100, 300));
        let half = Jitter::Factor {
            low: Ratio::percent(50),
            high: Ratio::percent(150),
        };
        assert_eq!(ends(half), (50, 150));
    }

    #[test]
    fn decorrelated_grows_from_the_wait_before_and_stays_under_the_cap() {
        let backoff = Backoff {
            jitter: Jitter::Decorrelated,
            ..plain(Growth::Constant)
        };
        assert_eq!(
            millis(&backoff, &mut Highest)[..5],
            [Some(300), Some(900), Some(2700), Some(5000), Some(5000)]
        );
        assert_eq!(backoff.longest(4), Duration::from_secs(5));
    }

    /// 10 s doubling against a period of 300 s: five retries after 10 + 20 + 40 + 80 + 160 = 310 s.
    #[test]
    fn a_periodic_client_stops_once_the_delay_exceeds_its_period() {
        let backoff = Backoff {
            initial: Duration::from_secs(10),
            cap: Duration::from_secs(3600),
            stop_beyond: Some(Duration::from_secs(300)),
            ..plain(Growth::Exponential(Ratio::from_f64(2.0).unwrap()))
        };
        let waits: Vec<u128> = millis(&backoff, &mut Lowest).into_iter().flatten().collect();
        assert_eq!(waits, [10_000, 20_000, 40_000, 80_000, 160_000]);
    }

    #[test]
    fn nothing_overflows() {
        let backoff = Backoff {
            initial: Duration::MAX,
            cap: Duration::MAX,
            growth: Growth::Exponential(Ratio::from_f64(Ratio::LARGEST).unwrap()),
            jitter: Jitter::Factor {
                low: Ratio::ONE,
                high: Ratio::from_f64(Ratio::LARGEST).unwrap(),
            },
            stop_beyond: None,
        };
        assert!(backoff.delay(u32::MAX, Duration::MAX, &mut Highest).is_some());
    }
}
