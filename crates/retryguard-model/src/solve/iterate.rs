//! Gauss–Seidel: the solver for components too large to eliminate, and the second opinion in tests.

use super::lane::Lane;
use crate::chain::Chain;
use crate::error::Error;

const MAX_SWEEPS: u64 = 200_000;
/// Sweeps stop when what is still to come is estimated below this part of every value.
const SETTLED: f64 = 1e-11;

/// Whether sweeps have settled. A small change alone says nothing: sweeps that converge slowly change little for long. What is
/// still to come is change·q/(1−q), with q the factor by which changes shrink; q is taken from the slowest of the last ones.
#[derive(Default)]
pub(super) struct Settling {
    last: Vec<f64>,
}

impl Settling {
    const LOOK_BACK: usize = 20;

    pub(super) fn settled(&mut self, change: f64) -> bool {
        if change == 0.0 {
            return true;
        }
        self.last.push(change);
        if self.last.len() <= Self::LOOK_BACK {
            return false;
        }
        let slowest = self
            .last
            .windows(2)
            .map(|pair| pair[1] / pair[0])
            .fold(0.0, f64::max);
        self.last.remove(0);
        slowest < 1.0 && change * slowest / (1.0 - slowest) < SETTLED
    }
}

/// Solves in place for `states`, which have the rates of leaving `leaving`; `x` holds the right-hand side there.
pub(super) fn solve<L: Lane>(
    chain: &Chain,
    states: &[u32],
    leaving: &[f64],
    x: &mut [L],
) -> Result<(), Error> {
    for place in 0..L::WIDTH {
        let mut one: Vec<f64> = x.iter().map(|lane| lane.get(place)).collect();
        solve_one(chain, states, leaving, &mut one)?;
        for s in states {
            x[*s as usize].set(place, one[*s as usize]);
        }
    }
    Ok(())
}

fn solve_one(chain: &Chain, states: &[u32], leaving: &[f64], x: &mut [f64]) -> Result<(), Error> {
    let b: Vec<f64> = states.iter().map(|s| x[*s as usize]).collect();
    for s in states {
        x[*s as usize] = 0.0;
    }
    let mut change = f64::INFINITY;
    let mut settling = Settling::default();
    for _ in 0..MAX_SWEEPS {
        change = 0.0f64;
        for (place, s) in states.iter().enumerate() {
            let s = *s as usize;
            let sum: f64 = chain
                .row(s)
                .filter(|(to, _)| *to != s)
                .map(|(to, rate)| rate * x[to])
                .sum();
            let value = (b[place] + sum) / leaving[place];
            if value != 0.0 {
                change = change.max(((value - x[s]) / value).abs());
            }
            x[s] = value;
        }
        if settling.settled(change) {
            return Ok(());
        }
    }
    Err(Error::Convergence {
        iterations: MAX_SWEEPS,
        change,
        help: "the chain is large and stiff; make counters and Erlang shapes smaller",
    })
}

#[cfg(test)]
mod tests {
    use super::super::eliminate::{Factor, Made, Room};
    use super::*;
    use crate::chain::index;

    /// A ring with a way out, whose rates span six orders of magnitude.
    fn ring(size: usize, seed: u64) -> (Chain, Vec<f64>) {
        let mut state = seed;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut chain = Chain {
            rows: vec![0],
            ..Chain::default()
        };
        let mut exit = Vec::new();
        for s in 0..size {
            for step in [1, 2, 5] {
                chain.columns.push(index((s + step) % size));
                chain.rates.push(10f64.powf(draw() * 6.0 - 3.0));
            }
            chain.rows.push(chain.columns.len());
            exit.push(if s % 7 == 0 { 0.5 + draw() } else { 0.0 });
        }
        (chain, exit)
    }

    #[test]
    fn sweeps_and_elimination_agree() {
        for seed in 1..20 {
            let size = 12 + usize::try_from(seed).unwrap() * 3;
            let (chain, exit) = ring(size, seed);
            let rows: Vec<Vec<(u32, f64)>> = (0..size)
                .map(|s| chain.row(s).map(|(to, rate)| (index(to), rate)).collect())
                .collect();
            let leaving: Vec<f64> = (0..size).map(|s| chain.exit_rate(s) + exit[s]).collect();
            let mut direct = vec![1.0; size];
            let room = Room {
                entries: usize::MAX,
                bytes: u64::MAX,
            };
            let Made::Factor(factor) = Factor::make(rows, exit, room) else {
                panic!("nothing limits it");
            };
            factor.solve(&mut direct);
            let states: Vec<u32> = (0..size).map(index).collect();
            let mut swept = vec![1.0; size];
            solve(&chain, &states, &leaving, &mut swept).unwrap();
            for (a, b) in direct.iter().zip(&swept) {
                assert!((a / b - 1.0).abs() < 1e-8, "{seed}: {a} {b}");
            }
        }
    }
}
