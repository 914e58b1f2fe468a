//! Unbounded reachability: probabilities and expected rewards.

use super::graph::{almost_surely, can_reach, walk_fits};
use super::linear::solve_once;
use crate::chain::Chain;
use crate::error::Error;

/// The probability, from every state, of reaching `right` through states of `left`.
pub(crate) fn until(chain: &Chain, left: &[bool], right: &[bool]) -> Result<Vec<f64>, Error> {
    walk_fits(chain)?;
    let can = can_reach(chain, right, |s| left[s]);
    let sure = almost_surely(chain, right, |s| left[s]);
    let mut x: Vec<f64> = sure.iter().map(|sure| if *sure { 1.0 } else { 0.0 }).collect();
    let open: Vec<bool> = (0..chain.states()).map(|s| can[s] && !sure[s]).collect();
    if open.iter().any(|open| *open) {
        solve_once(chain, &open, &mut x)?;
    }
    Ok(x)
}

/// The probability that the next state satisfies `inner`, and comes no sooner than `lower` and no later than `upper`.
pub(crate) fn next(chain: &Chain, inner: &[bool], lower: f64, upper: Option<f64>) -> Vec<f64> {
    (0..chain.states())
        .map(|s| {
            let total: f64 = chain.row(s).map(|(_, rate)| rate).sum();
            let hit: f64 = chain
                .row(s)
                .filter(|(to, _)| inner[*to])
                .map(|(_, rate)| rate)
                .sum();
            // Also where nothing hits: the sum of no numbers is -0.
            if total <= 0.0 || hit <= 0.0 {
                return 0.0;
            }
            let in_time = match upper {
                None => (-total * lower).exp(),
                // The difference of two numbers that may be near 1 keeps its digits this way.
                Some(upper) => (-total * lower).exp() * -(-total * (upper - lower)).exp_m1(),
            };
            hit / total * in_time
        })
        .collect()
}

/// All that is ever earned, infinite where earning may go on for ever.
pub(crate) fn total_rewards(chain: &Chain, earned: &[f64]) -> Result<Vec<f64>, Error> {
    walk_fits(chain)?;
    let earning: Vec<bool> = earned.iter().map(|earned| *earned > 0.0).collect();
    let done: Vec<bool> = can_reach(chain, &earning, |_| true)
        .iter()
        .map(|can| !can)
        .collect();
    rewards_to(chain, &done, earned, |_| 0.0)
}

/// Whether a transition leads to a state that satisfies `inner`.
pub(crate) fn some_next(chain: &Chain, inner: &[bool]) -> Vec<bool> {
    (0..chain.states())
        .map(|s| chain.row(s).any(|(to, _)| inner[to]))
        .collect()
}

/// Whether some path stays where `inside` holds for ever.
pub(crate) fn can_stay(chain: &Chain, inside: &[bool]) -> Vec<bool> {
    let (starts, sources) = chain.predecessors();
    let mut stays = inside.to_vec();
    let mut ways: Vec<usize> = (0..chain.states())
        .map(|s| chain.row(s).filter(|(to, _)| inside[*to]).count())
        .collect();
    let mut gone: Vec<usize> = (0..chain.states())
        .filter(|s| stays[*s] && ways[*s] == 0)
        .collect();
    for s in &gone {
        stays[*s] = false;
    }
    while let Some(s) = gone.pop() {
        for source in &sources[starts[s]..starts[s + 1]] {
            let source = *source as usize;
            ways[source] -= 1;
            if stays[source] && ways[source] == 0 {
                stays[source] = false;
                gone.push(source);
            }
        }
    }
    stays
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
    walk_fits(chain)?;
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
