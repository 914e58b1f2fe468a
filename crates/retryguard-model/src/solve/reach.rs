//! Unbounded reachability: probabilities and expected rewards.

use super::graph::{almost_surely, can_reach};
use super::linear::solve_once;
use crate::chain::Chain;
use crate::error::Error;

/// The probability, from every state, of reaching `right` through states of `left`.
pub(crate) fn until(chain: &Chain, left: &[bool], right: &[bool]) -> Result<Vec<f64>, Error> {
    let can = can_reach(chain, right, |s| left[s]);
    let sure = almost_surely(chain, right, |s| left[s]);
    let mut x: Vec<f64> = sure.iter().map(|sure| if *sure { 1.0 } else { 0.0 }).collect();
    let open: Vec<bool> = (0..chain.states()).map(|s| can[s] && !sure[s]).collect();
    if open.iter().any(|open| *open) {
        solve_once(chain, &open, &mut x)?;
    }
    Ok(x)
}

/// The probability that the next state satisfies `inner`.
pub(crate) fn next(chain: &Chain, inner: &[bool]) -> Vec<f64> {
    (0..chain.states())
        .map(|s| {
            let total: f64 = chain.row(s).map(|(_, rate)| rate).sum();
            let hit: f64 = chain
                .row(s)
                .filter(|(to, _)| inner[*to])
                .map(|(_, rate)| rate)
                .sum();
            if total > 0.0 { hit / total } else { 0.0 }
        })
        .collect()
}

/// The expected reward earned before `target`, infinite where the target may be missed. `earned` is what each state earns
/// per unit of time.
pub(crate) fn reach_rewards(chain: &Chain, target: &[bool], earned: &[f64]) -> Result<Vec<f64>, Error> {
    rewards_to(chain, target, earned, |_| 0.0)
}

/// The same, where reaching a state of `target` pays what `worth` says.
pub(crate) fn rewards_to(
    chain: &Chain,
    target: &[bool],
    earned: &[f64],
    worth: impl Fn(usize) -> f64,
) -> Result<Vec<f64>, Error> {
    let sure = almost_surely(chain, target, |_| true);
    let open: Vec<bool> = (0..chain.states()).map(|s| sure[s] && !target[s]).collect();
    let mut x: Vec<f64> = (0..chain.states())
        .map(|s| match (open[s], target[s]) {
            (true, _) => earned[s],
            (_, true) => worth(s),
            _ => 0.0,
        })
        .collect();
    if open.iter().any(|open| *open) {
        solve_once(chain, &open, &mut x)?;
    }
    for s in 0..chain.states() {
        if !sure[s] {
            x[s] = f64::INFINITY;
        }
    }
    Ok(x)
}
