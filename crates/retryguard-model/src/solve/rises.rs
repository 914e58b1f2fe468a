//! How likely a counter rises once more.

use super::graph::can_reach;
use super::linear::System;
use crate::chain::{Chain, Memory, Rises};
use crate::error::Error;

/// Rounds over the transitions to higher levels: each is one more success that leaves the counter where it is.
const ROUNDS: usize = 16;
/// Room for what the solver may be wrong by.
const MARGIN: f64 = 1e-6;

/// Where the rise after a rise is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Before the level is left.
    OnTheLevel,
    Anywhere,
}

/// The least that `exponent` says of upper bounds on the probability that the counter, just after a rise, rises again before it leaves
/// the run or the question is decided. The bounds are made smaller until it is no more than `enough`, or some rounds have passed.
///
/// Transitions to higher levels are not part of the system: they lead to values that are known from the round before. At first
/// these are 1. The system has no negative entry, so values that are too large at the start stay too large in every round.
pub(crate) fn rises_again(
    chain: &Chain,
    rises: &Rises,
    enough: f64,
    exponent: impl Fn(f64, Again) -> f64,
) -> Result<f64, Error> {
    let states = chain.states();
    let inside: Vec<bool> = (0..states)
        .map(|s| rises.inside[s] && !chain.stopped[s])
        .collect();
    let mut rising = vec![0.0; states];
    let mut ended = vec![0.0; states];
    for (from, _, rate) in &rises.moves {
        rising[*from as usize] += rate;
    }
    for (from, _, rate) in &rises.resets {
        ended[*from as usize] += rate;
    }
    let mut own: Vec<(u32, u32, f64)> = rises.moves.iter().chain(&rises.resets).copied().collect();
    own.sort_unstable_by_key(|(from, to, _)| (*from, *to));
    // The rows within the run without the rises and the resets; all else is a rate of leaving.
    let mut rest = Chain {
        rows: vec![0],
        memory: chain.memory,
        ..Chain::default()
    };
    let mut leaving = vec![0.0; states];
    let mut next = own.iter().peekable();
    for s in 0..states {
        let mut moves = Vec::new();
        while let Some(step) = next.next_if(|(from, _, _)| *from as usize == s) {
            moves.push((step.1 as usize, step.2));
        }
        if inside[s] {
            for (to, rate) in chain.row(s) {
                let risen: f64 = moves
                    .iter()
                    .filter(|(target, _)| *target == to)
                    .map(|(_, rate)| rate)
                    .sum();
                let other = rate - risen;
                // A difference within rounding is not a transition.
                if other <= 1e-12 * rate || to == s {
                    continue;
                }
                if inside[to] {
                    rest.columns.push(crate::chain::index(to));
                    rest.rates.push(other);
                } else {
                    leaving[s] += other;
                }
            }
            leaving[s] += rising[s]
                + ended[s]
                + level_exits(chain, s)
                    .filter(|exit| exit.first)
                    .map(|e| e.rate)
                    .sum::<f64>();
        }
        rest.rows.push(rest.columns.len());
    }
    // From where nothing leaves, nothing rises.
    let out: Vec<bool> = leaving.iter().map(|rate| *rate > 0.0).collect();
    let can = can_reach(&rest, &out, |s| inside[s]);
    let open: Vec<bool> = (0..states).map(|s| inside[s] && can[s]).collect();
    let mut spare = Memory::spare(chain.memory);
    let system = System::new(&rest, &open, |s| leaving[s], &mut spare)?;
    let most = |b: Vec<f64>| -> Result<(Vec<f64>, f64), Error> {
        let mut x = b;
        system.solve(&mut x)?;
        let targets = rises.moves.iter().map(|(_, to, _)| x[*to as usize]);
        let most = targets.fold(0.0, f64::max);
        Ok((x, f64::min(1.0, most * (1.0 + MARGIN))))
    };
    let later_too = |x: Option<&[f64]>| -> Vec<f64> {
        let later = |s| x.map_or(0.0, |x| later(chain, rises, s, x));
        (0..states)
            .map(|s| if open[s] { rising[s] + later(s) } else { 0.0 })
            .collect()
    };
    let mut found = exponent(most(later_too(None))?.1, Again::OnTheLevel);
    let mut x: Vec<f64> = open.iter().map(|open| f64::from(u8::from(*open))).collect();
    for _ in 0..ROUNDS {
        // Without levels both are the same.
        if found <= enough || chain.levels.is_none() {
            break;
        }
        let (next, bound) = most(later_too(Some(&x)))?;
        x = next;
        found = found.min(exponent(bound, Again::Anywhere));
    }
    Ok(found)
}

/// With which rate a rise may follow after a transition to a higher level; where it may enter several blocks, the worst counts.
fn later(chain: &Chain, rises: &Rises, s: usize, x: &[f64]) -> f64 {
    let mut sum = 0.0;
    let mut open: Option<(f64, f64)> = None;
    for exit in level_exits(chain, s) {
        let ended = rises
            .resetting_exits
            .binary_search(&(crate::chain::index(s), exit.target))
            .is_ok();
        let here = if ended { 0.0 } else { x[exit.target as usize] };
        match &mut open {
            Some((_, worst)) if !exit.first => *worst = worst.max(here),
            _ => {
                if let Some((rate, worst)) = open.replace((exit.rate, here)) {
                    sum += rate * worst;
                }
            }
        }
    }
    sum + open.map_or(0.0, |(rate, worst)| rate * worst)
}

fn level_exits(chain: &Chain, s: usize) -> impl Iterator<Item = &crate::chain::Exit> {
    let exits = chain
        .levels
        .as_ref()
        .map(|levels| &levels.exits[levels.rows[s]..levels.rows[s + 1]]);
    exits.unwrap_or_default().iter()
}
