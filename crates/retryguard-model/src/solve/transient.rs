//! Uniformisation: what happens within a time.

use super::poisson::Poisson;
use super::reach::until;
use crate::chain::Chain;
use crate::error::Error;

/// The probability that a Poisson tail may hide.
const TAIL: f64 = 1e-14;

/// The chain watched at the ticks of one fast clock.
struct Uniform<'c> {
    chain: &'c Chain,
    clock: f64,
    /// The part of the ticks at which each state stays; `None` for states that keep their value.
    staying: Vec<Option<f64>>,
}

impl<'c> Uniform<'c> {
    fn new(chain: &'c Chain, frozen: &[bool]) -> Uniform<'c> {
        let leaving: Vec<f64> = (0..chain.states())
            .map(|s| if frozen[s] { 0.0 } else { chain.exit_rate(s) })
            .collect();
        // Slightly faster than the fastest state, so that no chain is periodic.
        let clock = leaving.iter().copied().fold(0.0, f64::max) * 1.02;
        let staying = leaving
            .iter()
            .zip(frozen)
            .map(|(leaving, frozen)| (!frozen && clock > 0.0).then(|| (clock - leaving) / clock))
            .collect();
        Uniform {
            chain,
            clock,
            staying,
        }
    }

    fn step(&self, from: &[f64], to: &mut [f64]) {
        let tick = 1.0 / self.clock;
        for (s, (value, staying)) in to.iter_mut().zip(&self.staying).enumerate() {
            *value = match staying {
                None => from[s],
                Some(staying) => {
                    let others = self.chain.row(s).filter(|(t, _)| *t != s);
                    others.map(|(t, rate)| rate * from[t]).sum::<f64>() * tick + staying * from[s]
                }
            };
        }
    }

    fn poisson(&self, time: f64, limit: u64) -> Result<Poisson, Error> {
        let mean = self.clock * time;
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

    /// The expectation after `time` of `values`.
    fn after(&self, values: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
        let poisson = self.poisson(time, limit)?;
        let mut result = vec![0.0; values.len()];
        let mut now = values.to_vec();
        let mut then = vec![0.0; values.len()];
        for count in 0..=poisson.right() {
            let weight = poisson.weight(count);
            if weight > 0.0 {
                for (sum, value) in result.iter_mut().zip(&now) {
                    *sum += weight * value;
                }
            }
            if count < poisson.right() {
                self.step(&now, &mut then);
                if now == then {
                    // A fixed point: every later tick adds the same.
                    let rest: f64 = (count + 1..=poisson.right()).map(|c| poisson.weight(c)).sum();
                    for (sum, value) in result.iter_mut().zip(&now) {
                        *sum += rest * value;
                    }
                    break;
                }
                std::mem::swap(&mut now, &mut then);
            }
        }
        Ok(result)
    }
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
            let frozen: Vec<bool> = (0..states).map(|s| right[s] || !left[s]).collect();
            let target: Vec<f64> = right.iter().map(|r| if *r { 1.0 } else { 0.0 }).collect();
            Uniform::new(chain, &frozen).after(&target, upper - lower, limit)?
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
        values = Uniform::new(chain, &frozen).after(&values, lower, limit)?;
    }
    Ok(values)
}

/// The expected value of `earned` at a time.
pub(crate) fn instant(chain: &Chain, earned: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
    Uniform::new(chain, &vec![false; chain.states()]).after(earned, time, limit)
}

/// The expected sum of `earned` up to a time.
pub(crate) fn cumulative(chain: &Chain, earned: &[f64], time: f64, limit: u64) -> Result<Vec<f64>, Error> {
    let uniform = Uniform::new(chain, &vec![false; chain.states()]);
    if uniform.clock == 0.0 {
        return Ok(earned.iter().map(|e| e * time).collect());
    }
    let poisson = uniform.poisson(time, limit)?;
    let tails = poisson.tails();
    let mut result = vec![0.0; earned.len()];
    let mut now = earned.to_vec();
    let mut then = vec![0.0; earned.len()];
    for tail in tails {
        for (sum, value) in result.iter_mut().zip(&now) {
            *sum += tail / uniform.clock * value;
        }
        uniform.step(&now, &mut then);
        std::mem::swap(&mut now, &mut then);
    }
    Ok(result)
}
