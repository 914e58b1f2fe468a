//! An upper bound on a reward beyond the edge of a truncated space.
//!
//! A potential is a function of the states that is never negative and falls, on average, at least as fast as the reward is earned.
//! What is earned until the chain is home, in the target or in the explored part, is then at most the potential where it started
//! (Foster and Lyapunov). [`outside`] reads the states beyond the edge from the text, [`potential`] finds the function and checks it in
//! every one of them.
//!
//! Let V be the potential at the edge, u what a state of the explored part earns before the target or the edge, V at the edge included,
//! and q its probability of the target before the edge. A path that comes back does so in a state below the places; the dearest of those is
//! worth at most M = max u/q, because each return costs at most u and is the last with probability q. So the start is worth at most
//! u + (1 − q)·M.

mod outside;
mod potential;

use rustc_hash::FxHashSet;

use crate::chain::Chain;
use crate::elaborate::properties::Formula;
use crate::error::Error;
use crate::expr::Vague;
use crate::program::Program;
use crate::reduce::Reduction;
use crate::solve;
use outside::{Asked, truth};

/// Variables that are tried as the one left vague.
const TRIES: usize = 4;

/// A reward on a truncated space.
pub(crate) struct Bounded<'b> {
    pub(crate) program: &'b Program,
    pub(crate) reduction: &'b Reduction,
    /// With the values of the variables kept.
    pub(crate) chain: &'b Chain,
    /// The place of the reward structure in the program.
    pub(crate) reward: usize,
    pub(crate) target: &'b Formula,
    /// Where the target is, in the chain.
    pub(crate) reached: &'b [bool],
    pub(crate) earned: &'b [f64],
}

impl Bounded<'_> {
    /// The most that the initial state can earn, or why nothing could be proven.
    pub(crate) fn upper(&self) -> Result<Result<f64, String>, Error> {
        let variables = &self.program.variables;
        let mut order: Vec<usize> = (0..variables.len()).filter(|v| !variables[*v].boolean).collect();
        order.sort_by_key(|v| {
            std::cmp::Reverse(i128::from(variables[*v].high) - i128::from(variables[*v].low))
        });
        let mut first = None;
        for variable in order.into_iter().take(TRIES) {
            match self.with(variable)? {
                Ok(bound) => return Ok(Ok(bound)),
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Ok(Err(first.unwrap_or_else(|| "the model has no counter".to_owned())))
    }

    fn state(&self, number: usize) -> &[i64] {
        let width = self.program.variables.len();
        &self.chain.valuations[number * width..(number + 1) * width]
    }

    /// The bound with `variable` left vague.
    fn with(&self, variable: usize) -> Result<Result<f64, String>, Error> {
        let cut = || self.chain.cut.iter().map(|s| self.state(*s as usize));
        let Some(low) = cut().map(|state| state[variable]).min() else {
            return Ok(Err("nothing is cut".to_owned()));
        };
        // Beyond this the arithmetic with doubles is not exact.
        let declared = &self.program.variables[variable];
        if declared.high.unsigned_abs().max(declared.low.unsigned_abs()) > 1 << 50 {
            return Ok(Err(format!("the range of `{}` is too large", declared.name)));
        }
        let below: FxHashSet<&[i64]> = (0..self.chain.states())
            .map(|s| self.state(s))
            .filter(|state| state[variable] < low)
            .collect();
        let asked = Asked {
            program: self.program,
            rewards: &self.program.rewards[self.reward],
            target: self.target,
            variable,
            low,
            home: |state: &[i64]| {
                let exactly = Vague {
                    state,
                    variable,
                    low: state[variable],
                    high: state[variable],
                };
                let mut known = state.to_vec();
                self.reduction.normalise(&mut known);
                below.contains(known.as_slice()) || truth(&exactly, self.target).is_some_and(|t| !t.fails)
            },
        };
        let outside = match asked.explore(cut()) {
            Ok(outside) => outside,
            Err(reason) => return Ok(Err(reason)),
        };
        let potential = match potential::find(&outside)? {
            Ok(potential) => potential,
            Err(reason) => return Ok(Err(reason)),
        };
        let edge: Vec<(usize, f64)> = self
            .chain
            .cut
            .iter()
            .map(|s| {
                let state = self.state(*s as usize);
                let place = outside.place(state).expect("exploration started there");
                (*s as usize, potential.at(place, state[variable]))
            })
            .collect();
        self.beyond_edge(&edge, |s| self.state(s)[variable] < low)
    }

    /// The bound from what the edge is worth until the chain is home, which it is where `below` holds.
    fn beyond_edge(
        &self,
        edge: &[(usize, f64)],
        below: impl Fn(usize) -> bool,
    ) -> Result<Result<f64, String>, Error> {
        let states = self.chain.states();
        let mut worth = vec![0.0; states];
        let mut stop = self.reached.to_vec();
        let mut inside = vec![true; states];
        for (s, value) in edge {
            if !self.reached[*s] {
                worth[*s] = *value;
            }
            stop[*s] = true;
            inside[*s] = false;
        }
        let total = solve::rewards_to(self.chain, &stop, self.earned, |s| worth[s])?;
        let last = solve::until(self.chain, &inside, self.reached)?;
        let mut dearest = 0.0f64;
        for s in (0..states).filter(|s| below(*s) && !stop[*s]) {
            if last[s] <= 0.0 {
                return Ok(Err(
                    "from a state of the explored part the target is out of reach without leaving it"
                        .to_owned(),
                ));
            }
            dearest = dearest.max(total[s] / last[s]);
        }
        let start = self.chain.initial[0] as usize;
        let most = total[start] + (1.0 - last[start]).max(0.0) * dearest;
        Ok(if most.is_finite() {
            Ok(most)
        } else {
            Err("the explored part itself may keep the chain from the target".to_owned())
        })
    }
}
