//! Uniformisation: what happens within a time.

use super::graph::{can_reach, walk_fits};
use super::poisson::Poisson;
use super::reach::until;
use super::ticks::Ticks;
use crate::chain::Chain;
use crate::error::Error;

/// The probability that a Poisson tail may hide.
const TAIL: f64 = 1e-14;
/// Every so many steps it is looked whether all states have come to one value.
const LOOK: u64 = 32;

fn poisson(ticks: &Ticks, time: f64, limit: u64) -> Result<Poisson, Error> {
    let mean = ticks.clock * time;
    if mean > limit as f64 {
        return Err(Error::Limit {
            what: "steps of transient analysis",
            limit,
            help: "shorten the time, or slow down the fastest rate (an instantaneous rate of 9999 \
                   can often be 100)",
        });
    }
    Ok(Poisson::new(mean, TAIL))
}

/// What the values after each number of ticks count.
struct Weights {
    /// Each of those after fewer than `left`.
    before: f64,
    left: u64,
    /// Those after `left` and more.
    window: Vec<f64>,
}

impl Weights {
    fn of(&self, count: u64) -> f64 {
        match count.checked_sub(self.left) {
            None => self.before,
            Some(place) => usize::try_from(place)
                .ok()
                .and_then(|place| self.window.get(place))
                .copied()
                .unwrap_or(0.0),
        }
    }

    /// The last number of ticks that counts.
    fn last(&self) -> u64 {
        self.left + self.window.len() as u64 - 1
    }

    /// All from `count` on.
    fn rest(&self, count: u64) -> f64 {
        let counts = count.max(self.left)..=self.last();
        self.left.saturating_sub(count) as f64 * self.before + counts.map(|c| self.of(c)).sum::<f64>()
    }
}

/// The weighted sum of the values after each number of ticks.
///
/// What a tick makes of a value is an average of values. So once all lie between two numbers they do so for ever, and where the two are so
/// near to each other that it does not matter, the rest is known.
fn weighted(ticks: &Ticks, values: &[f64], weights: &Weights) -> Vec<f64> {
    let mut now = ticks.placed(values);
    let mut then = now.clone();
    let mut result = vec![0.0; now.len()];
    let largest = values.iter().fold(0.0, |most, value| f64::max(most, value.abs()));
    let mut add = |now: &[f64], weight: f64| {
        for (sum, value) in result.iter_mut().zip(now) {
            *sum += weight * value;
        }
    };
    for count in 0..=weights.last() {
        let weight = weights.of(count);
        if weight > 0.0 {
            add(&now, weight);
        }
        if count == weights.last() {
            break;
        }
        ticks.step(&now, &mut then);
        if count % LOOK == 0 && (ticks.spread(&then) <= TAIL * largest || now == then) {
            add(&then, weights.rest(count + 1));
            break;
        }
        std::mem::swap(&mut now, &mut then);
    }
    ticks.taken(&result)
}

/// The expectation after `time` of `values`.
fn after(chain: &Chain, frozen: &[bool], values: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
    let ticks = Ticks::new(chain, frozen)?;
    let poisson = poisson(&ticks, time, limit)?;
    let weights = Weights {
        before: 0.0,
        left: poisson.left,
        window: poisson.weights,
    };
    Ok(weighted(&ticks, values, &weights))
}

/// The probability of reaching `right` through `left` at a time from `lower` to `upper`.
pub(crate) fn bounded_until(
    chain: &Chain,
    left: &[bool],
    right: &[bool],
    lower: f64,
    upper: Option<f64>,
    limit: u64,
) -> Result<Vec<f64>, Error> {
    let states = chain.states();
    // After the lower bound: reach the right side within what is left of the time.
    let mut values = match upper {
        None => until(chain, left, right)?,
        Some(upper) => {
            walk_fits(chain)?;
            let can = can_reach(chain, right, |s| left[s]);
            let frozen: Vec<bool> = (0..states).map(|s| right[s] || !can[s]).collect();
            let target: Vec<f64> = right.iter().map(|r| if *r { 1.0 } else { 0.0 }).collect();
            probabilities(after(chain, &frozen, &target, upper - lower, limit)?)
        }
    };
    if lower > 0.0 {
        // Before it: stay on the left side.
        for s in 0..states {
            if !left[s] {
                values[s] = 0.0;
            }
        }
        let frozen: Vec<bool> = left.iter().map(|l| !l).collect();
        values = probabilities(after(chain, &frozen, &values, lower, limit)?);
    }
    Ok(values)
}

/// Sums of weights may come out above one by their last digit.
fn probabilities(mut values: Vec<f64>) -> Vec<f64> {
    for value in &mut values {
        *value = value.min(1.0);
    }
    values
}

/// The expected value of `earned` at a time.
pub(crate) fn instant(chain: &Chain, earned: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
    after(chain, &vec![false; chain.states()], earned, time, limit)
}

/// The expected sum of `earned` up to a time.
pub(crate) fn cumulative(chain: &Chain, earned: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
    let ticks = Ticks::new(chain, &vec![false; chain.states()])?;
    if ticks.clock == 0.0 {
        return Ok(earned.iter().map(|e| e * time).collect());
    }
    let poisson = poisson(&ticks, time, limit)?;
    // A state is held for one mean tick for each tick that is not the last within the time.
    let tick = 1.0 / ticks.clock;
    let weights = Weights {
        before: tick,
        left: poisson.left,
        window: poisson.tails().iter().map(|tail| tail * tick).collect(),
    };
    Ok(weighted(&ticks, earned, &weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up and down at the rates 2 and 3; one is earned while it is down.
    fn pair() -> Chain {
        Chain {
            rows: vec![0, 1, 2],
            columns: vec![1, 0],
            rates: vec![2.0, 3.0],
            ..Chain::default()
        }
    }

    /// The last time has three thousand million ticks.
    #[test]
    fn a_chain_that_has_settled_is_not_followed_to_the_end() {
        let (chain, earned) = (pair(), [0.0, 1.0]);
        for time in [0.0, 0.1, 1.0, 50.0, 1e9] {
            let at = |sign: f64, other: f64| 0.4 + sign * other * f64::exp(-5.0 * time);
            let exact = [at(-1.0, 0.4), at(1.0, 0.6)];
            for (found, exact) in instant(&chain, &earned, time, u64::MAX)
                .unwrap()
                .iter()
                .zip(exact)
            {
                assert!((found - exact).abs() < 1e-13, "{time}: {found} {exact}");
            }
            let settled = -f64::exp_m1(-5.0 * time) / 5.0;
            let exact = [0.4 * time - 0.4 * settled, 0.4 * time + 0.6 * settled];
            for (found, exact) in cumulative(&chain, &earned, time, u64::MAX)
                .unwrap()
                .iter()
                .zip(exact)
            {
                assert!(
                    (found - exact).abs() < 1e-12 * (1.0 + time),
                    "{time}: {found} {exact}"
                );
            }
        }
    }
}
