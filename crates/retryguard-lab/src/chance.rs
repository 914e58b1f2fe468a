//! Seeded chance: one stream for every purpose, so that two runs with one seed meet the same draws in each.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A stream of draws that many tasks share.
#[derive(Debug)]
pub struct SharedRandom(Mutex<fastrand::Rng>);

impl SharedRandom {
    /// The stream of one purpose under a seed.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a: any spread of the purpose over 64 bits will do.
        let mixed = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(Mutex::new(fastrand::Rng::with_seed(seed ^ mixed)))
    }

    /// Uniform from zero to one.
    pub fn unit(&self) -> f64 {
        self.draw(fastrand::Rng::f64)
    }

    /// True with a probability.
    pub fn happens(&self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// Uniform below a bound; zero for none.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        self.draw(|rng| rng.u64(..bound))
    }

    /// Uniform around a span: a spread of 0.2 draws from 80 % to 120 % of it.
    pub fn around(&self, span: Duration, spread: f64) -> Duration {
        span.mul_f64(1.0 + spread * (2.0 * self.unit() - 1.0))
    }

    /// The time to the next arrival of a Poisson process.
    pub fn gap(&self, rate: f64) -> Duration {
        let unit = 1.0 - self.unit();
        Duration::try_from_secs_f64(-unit.ln() / rate).unwrap_or(Duration::from_secs(3600))
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        self.draw(|rng| rng.u64(..))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_two_purposes_give_two() {
        let (one, again, other) = (
            SharedRandom::new(7, "a"),
            SharedRandom::new(7, "a"),
            SharedRandom::new(7, "b"),
        );
        let first: Vec<u64> = (0..10).map(|_| one.bits()).collect();
        assert_eq!(first, (0..10).map(|_| again.bits()).collect::<Vec<_>>());
        assert_ne!(first, (0..10).map(|_| other.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn a_poisson_process_has_its_rate() {
        let dice = SharedRandom::new(1, "arrivals");
        let total: Duration = (0..20_000).map(|_| dice.gap(100.0)).sum();
        let rate = 20_000.0 / total.as_secs_f64();
        assert!((97.0..103.0).contains(&rate), "{rate}");
    }
}
