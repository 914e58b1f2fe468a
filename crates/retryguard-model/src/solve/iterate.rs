//! Gauss–Seidel: the solver for components too large to eliminate, and the second opinion in tests.

use super::lane::Lane;
use crate::chain::Chain;
use crate::error::Error;

const MAX_SWEEPS: u64 = 200_000;
/// Sweeps stop when no value changes by more than this part of itself. The error left is larger by the factor with which
/// sweeps converge, so the bound is far below what is promised.
const SETTLED: f64 = 1e-13;

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
    let mut before = f64::INFINITY;
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
        // What is still to come is about change·q/(1−q), with q the ratio of the last two changes.
        let ratio = (change / before).min(0.999_999);
        if change * ratio / (1.0 - ratio) < SETTLED || change == 0.0 {
            return Ok(());
        }
        before = change;
    }
    Err(Error::Convergence {
        iterations: MAX_SWEEPS,
        change,
        help: "the chain is large and stiff; make counters and Erlang shapes smaller",
    })
}
