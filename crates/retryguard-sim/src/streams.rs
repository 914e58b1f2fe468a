//! Chance of the simulator: streams keyed by seed, entity and purpose.
//!
//! A single generator for the whole world would couple everything: one retry more, and every later arrival
//! falls elsewhere. Here each entity draws from a stream of its own for each purpose, so a policy that draws
//! more does not change the draws of others, and two policies are compared under the same arrivals, the same
//! service times and the same faults.
//!
//! The generator is counter-based: the draw number `n` of a stream is a mixing function of key and `n`
//! (SplitMix64's, which passes the usual batteries). So a stream costs sixteen bytes, starts in two
//! multiplications, and a million of them are nothing.

use retryguard_core::Chance;

/// What a draw decides. Part of a stream's key, so that decisions of one kind never shift those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Purpose {
    /// When the next arrival comes.
    Arrival = 1,
    /// How long a request is worked on.
    Service,
    /// Whether a request meets a random fault.
    Fault,
    /// The policy's own draws: jitter, throttle, guard.
    Policy,
    /// Which of several ways a request takes.
    Route,
    /// How long a user thinks.
    Think,
    /// What kind of request it is: its key, its criticality.
    Request,
    /// How long a message travels.
    Network,
    /// The phase and the waits of periodic work.
    Period,
    /// Which part of a cohort something happens to.
    Cohort,
    /// What a drawn world is like.
    World,
    /// How far a clock is off.
    Clock,
}

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the replication of this number. Number 0 is the run itself, so that a single run and the
    /// first of many are the same.
    #[must_use]
    pub const fn replication(self, number: u64) -> Self {
        if number == 0 {
            self
        } else {
            Self(mix(self.0 ^ mix(number.wrapping_add(0xd1b5_4a32_d192_ed03))))
        }
    }

    /// The stream of `entity` for `purpose`.
    #[inline]
    #[must_use]
    pub const fn stream(self, entity: u64, purpose: Purpose) -> Stream {
        let key = mix(self
            .0
            .wrapping_add(mix(entity.wrapping_mul(GOLDEN) ^ purpose as u64)));
        Stream { state: key }
    }
}

/// The odd constant next to 2⁶⁴ over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection in which every input bit changes half of the output bits.
#[inline]
const fn mix(mut value: u64) -> u64 {
    value ^= value >> 30;
    value = value.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^= value >> 27;
    value = value.wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A stream of draws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The next 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1).
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn uniform(&mut self) -> f64 {
        // Signed, because a processor converts that at once.
        (self.bits() >> 11).cast_signed() as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in [low, high).
    #[inline]
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        self.uniform().mul_add(high - low, low)
    }

    /// Exponential with this mean. Never infinite: the logarithm is taken of a number in (0, 1].
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller, one of the pair, so that a stream has no hidden
    /// second half).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Whether an event of this probability happens. Always draws, so that a probability that changes in
    /// the course of a run moves no other draw.
    #[inline]
    pub fn with_probability(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

impl Chance for Stream {
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product: the bias is below bound/2⁶⁴, far under what a simulation can see.
        let product = u128::from(self.bits()) * u128::from(bound);
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_key_gives_the_same_draws_and_another_key_others() {
        let draws = |seed, entity, purpose| {
            let mut stream = Seed(seed).stream(entity, purpose);
            [stream.bits(), stream.bits(), stream.bits()]
        };
        assert_eq!(draws(1, 2, Purpose::Policy), draws(1, 2, Purpose::Policy));
        assert_ne!(draws(1, 2, Purpose::Policy), draws(2, 2, Purpose::Policy));
        assert_ne!(draws(1, 2, Purpose::Policy), draws(1, 3, Purpose::Policy));
        assert_ne!(draws(1, 2, Purpose::Policy), draws(1, 2, Purpose::Route));
        assert_eq!(Seed(5).replication(0), Seed(5));
        assert_ne!(Seed(5).replication(1), Seed(5).replication(2));
    }

    #[test]
    fn the_first_draws_of_neighbouring_entities_are_uniform_and_independent() {
        let n = 200_000_u32;
        let firsts: Vec<f64> = (0..n)
            .map(|entity| Seed(7).stream(u64::from(entity), Purpose::Policy).uniform())
            .collect();
        let mean = firsts.iter().sum::<f64>() / f64::from(n);
        assert!(
            (mean - 0.5).abs() < 4.0 * (1.0 / 12.0 / f64::from(n)).sqrt(),
            "{mean}"
        );
        let products: f64 = firsts
            .windows(2)
            .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5))
            .sum();
        assert!((products / f64::from(n)).abs() < 4.0 / 12.0 / f64::from(n).sqrt());
    }

    #[test]
    fn the_distributions_have_their_moments() {
        let mut stream = Seed(3).stream(0, Purpose::Service);
        let n = 200_000;
        let (mut mean, mut square, mut exponential) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let normal = stream.normal();
            mean += normal / f64::from(n);
            square += normal * normal / f64::from(n);
            exponential += stream.exponential(2.0) / f64::from(n);
        }
        assert!(
            mean.abs() < 0.01 && (square - 1.0).abs() < 0.02,
            "{mean} {square}"
        );
        assert!((exponential - 2.0).abs() < 0.02, "{exponential}");
    }

    #[test]
    fn a_bounded_draw_stays_below_and_reaches_both_ends() {
        let mut stream = Seed(1).stream(1, Purpose::Policy);
        let draws: Vec<u64> = (0..1000).map(|_| stream.below(7)).collect();
        assert!((0..7).all(|value| draws.contains(&value)));
        assert!(draws.iter().all(|&value| value < 7));
        assert_eq!(stream.below(0), 0);
    }
}
