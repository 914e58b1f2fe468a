//! Whether a service is at its capacity, read from samples without retries and without switching anything.
//!
//! Calls that fail by chance leave a share of the calls that come: in a second with more calls, more calls succeed. A service
//! at its capacity serves the same number of calls, however many come. So the slope of successes over calls is the share of
//! successes in the first case, and zero in the second. Arrivals vary by themselves, which makes the slope measurable for free.
//!
//! What disturbs it errs on one side: samples of unequal length have more of both, which raises the slope, and calls that hardly
//! vary leave it uncertain. In both cases nothing is concluded.

use std::collections::VecDeque;

/// The most samples that are kept: old ones are of another load.
const MOST: usize = 60;
/// The least samples for a conclusion.
const LEAST: usize = 15;
/// How many standard errors the slope must be away.
const CLEAR: f64 = 2.0;

/// Calls and successes of the samples since retries went off.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    samples: VecDeque<(f64, f64)>,
}

impl Capacity {
    pub(super) fn push(&mut self, calls: f64, succeeded: f64) {
        self.samples.push_back((calls, succeeded));
        if self.samples.len() > MOST {
            self.samples.pop_front();
        }
    }

    /// Whether successes clearly rise by less than half of what they would rise by if each call had the same chance.
    pub(super) fn is_reached(&self) -> bool {
        if self.samples.len() < LEAST {
            return false;
        }
        let count = self.samples.len() as f64;
        let mean = |part: fn(&(f64, f64)) -> f64| self.samples.iter().map(part).sum::<f64>() / count;
        let (calls, succeeded) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let (mut square, mut product, mut other_square) = (0.0, 0.0, 0.0);
        for sample in &self.samples {
            let (x, y) = (sample.0 - calls, sample.1 - succeeded);
            square += x * x;
            product += x * y;
            other_square += y * y;
        }
        if square <= 0.0 || calls <= 0.0 || succeeded <= 0.0 {
            return false;
        }
        let slope = product / square;
        let residual = (other_square - slope * product).max(0.0) / (count - 2.0);
        slope + CLEAR * (residual / square).sqrt() < 0.5 * succeeded / calls
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of simulated calls are small and not negative"
)]
mod tests {
    use super::*;

    /// Numbers with a fixed seed: xorshift (Marsaglia 2003).
    struct Fixed(u64);

    impl Fixed {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    /// How many of `of` happen, each with the chance `p`.
    fn some(of: u32, p: f64, chance: &mut Fixed) -> f64 {
        let below = (p * 1e6) as u64;
        f64::from(
            (0..of)
                .map(|_| u32::from(chance.below(1_000_000) < below))
                .sum::<u32>(),
        )
    }

    fn sampled(seconds: usize, chance: &mut Fixed, succeeded: impl Fn(f64, &mut Fixed) -> f64) -> Capacity {
        let mut capacity = Capacity::default();
        for _ in 0..seconds {
            // About Poisson with a mean of 75.
            let calls = some(1_500, 0.05, chance);
            capacity.push(calls, succeeded(calls, chance));
        }
        capacity
    }

    #[test]
    fn a_service_that_serves_the_same_whatever_comes_is_at_its_capacity() {
        let mut chance = Fixed(7);
        for _ in 0..100 {
            let capacity = sampled(LEAST, &mut chance, |calls, chance| {
                calls.min(48.0 + some(4, 0.5, chance))
            });
            assert!(capacity.is_reached(), "{capacity:?}");
        }
    }

    #[test]
    fn random_failures_are_never_taken_for_a_limit() {
        let mut chance = Fixed(7);
        for p in [0.1, 0.3, 0.6, 0.9] {
            let mut wrong = 0;
            for _ in 0..200 {
                let capacity = sampled(30, &mut chance, |calls, chance| {
                    some(calls as u32, 1.0 - p, chance)
                });
                wrong += u32::from(capacity.is_reached());
            }
            assert!(wrong <= 10, "{wrong} of 200 at {p}");
        }
    }

    #[test]
    fn without_variation_or_samples_nothing_is_concluded() {
        let mut even = Capacity::default();
        for _ in 0..MOST {
            even.push(75.0, 50.0);
        }
        assert!(!even.is_reached());
        let mut few = Capacity::default();
        for number in 1..LEAST {
            few.push(75.0 + number as f64, 50.0);
        }
        assert!(!few.is_reached());
        few.push(74.0, 50.0);
        assert!(few.is_reached());
        assert!(!Capacity::default().is_reached());
        let mut down = Capacity::default();
        for number in 0..MOST {
            down.push(number as f64, 0.0);
        }
        assert!(!down.is_reached());
    }
}
