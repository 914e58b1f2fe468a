//! Answers on a space that was not explored to its end.
//!
//! States that are reached too rarely are left unexplored. What such a state would still contribute is not known, but it lies between
//! two things that are: nothing, and the most there can be. Both are solved for on the explored part, so the two values enclose the
//! true one; how far they are apart is the probability of leaving the explored part, times what is at stake there.

use crate::answer::Outcome;
use crate::chain::Chain;
use crate::elaborate::properties::{Comparison, Formula, Operator, Query};
use crate::error::Error;
use crate::expr::Expr;
use crate::program::Program;
use crate::solve;

/// The part of a value by which the solvers may be wrong: two numbers that enclose the true one must leave room for it.
const SOLVED: f64 = 1e-9;
/// What the tails of Poisson weights that are cut may hide of a probability.
const TAILS: f64 = 1e-13;

/// Said with a reward whose upper bound is infinite.
pub(crate) const NO_UPPER_BOUND: &str = "the value is at least the one given; lower --truncate, or raise --max-states and --max-memory, until \
     nothing is truncated; or ask for the reward within a time, R=? [ C<=t ], of states that earn a constant";

/// No more than the value that was solved for is in truth.
pub(crate) fn lowered(value: f64) -> f64 {
    value - SOLVED * value.abs()
}

/// No less than the value that was solved for is in truth.
pub(crate) fn raised(value: f64) -> f64 {
    value + SOLVED * value.abs()
}

/// Whether a question can be answered on a truncated space.
pub(crate) fn supports(formula: &Formula) -> bool {
    let Formula::Query(query) = formula else {
        return false;
    };
    match &query.operator {
        Operator::Until(left, right, ..) | Operator::NotUntil(left, right, ..) => plain(left) && plain(right),
        Operator::ReachReward(_, target) => plain(target),
        Operator::Cumulative(..) => true,
        _ => false,
    }
}

fn plain(formula: &Formula) -> bool {
    match formula {
        Formula::Plain(_) => true,
        Formula::Not(a) => plain(a),
        Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => plain(a) && plain(b),
        _ => false,
    }
}

/// The explored part and its edge.
pub(crate) struct Explored<'c> {
    pub(crate) program: &'c Program,
    pub(crate) chain: &'c Chain,
    pub(crate) max_steps: u64,
}

impl Explored<'_> {
    /// The least and the most that the probability of `left U right` can be.
    pub(crate) fn until(
        &self,
        left: &[bool],
        right: &[bool],
        lower: f64,
        upper: Option<f64>,
    ) -> Result<(f64, f64), Error> {
        let solve_for = |right: &[bool]| {
            if lower == 0.0 && upper.is_none() {
                solve::until(self.chain, left, right)
            } else {
                solve::bounded_until(self.chain, left, right, lower, upper, self.max_steps)
            }
        };
        let least = lowered(self.initial(&solve_for(right)?));
        let most = raised(self.initial(&solve_for(&self.with_edge(right))?)).min(1.0);
        if lower == 0.0 && upper.is_none() {
            return Ok((least, most));
        }
        Ok(((least - TAILS).max(0.0), (most + TAILS).min(1.0)))
    }

    /// The least that the reward before `target` can be, and whether the edge can be reached before it.
    pub(crate) fn least_reward(&self, target: &[bool], earned: &[f64]) -> Result<(f64, bool), Error> {
        let least = solve::reach_rewards(self.chain, &self.with_edge(target), earned)?;
        let edge = self.with_edge(&vec![false; target.len()]);
        let before: Vec<bool> = target.iter().map(|t| !t).collect();
        let reached = self.initial(&solve::until(self.chain, &before, &edge)?);
        Ok((lowered(self.initial(&least)), reached > 0.0))
    }

    /// The least and the most that can be earned within `time`.
    pub(crate) fn cumulative(&self, place: usize, earned: &[f64], time: f64) -> Result<(f64, f64), Error> {
        let edge = self.with_edge(&vec![false; earned.len()]);
        let inside: Vec<f64> = earned
            .iter()
            .zip(&edge)
            .map(|(earned, edge)| if *edge { 0.0 } else { *earned })
            .collect();
        let least = self.initial(&solve::cumulative(self.chain, &inside, time, self.max_steps)?);
        let anywhere = vec![true; earned.len()];
        let reached = self.initial(&solve::bounded_until(
            self.chain,
            &anywhere,
            &edge,
            0.0,
            Some(time),
            self.max_steps,
        )?);
        let at_stake = self.largest_rate(place).map_or(f64::INFINITY, |rate| rate * time);
        let beyond = if reached > 0.0 { reached * at_stake } else { 0.0 };
        Ok((lowered(least), raised(least + beyond)))
    }

    /// The most that any state can earn, where the text of the rewards shows it.
    fn largest_rate(&self, place: usize) -> Option<f64> {
        let rewards = &self.program.rewards[place];
        if !rewards.transitions.is_empty() {
            return None;
        }
        rewards
            .states
            .iter()
            .map(|item| match &item.value {
                Expr::Int(value) => Some(*value as f64),
                Expr::Real(value) => Some(value.get()),
                _ => None,
            })
            .sum()
    }

    fn with_edge(&self, truths: &[bool]) -> Vec<bool> {
        let mut truths = truths.to_vec();
        for s in &self.chain.cut {
            truths[*s as usize] = true;
        }
        truths
    }

    fn initial(&self, values: &[f64]) -> f64 {
        values[self.chain.initial[0] as usize]
    }
}

/// The outcome of a question whose value lies between two numbers.
pub(crate) fn outcome(query: &Query, least: f64, most: f64) -> Result<Outcome, Error> {
    let Some((comparison, bound)) = query.bound else {
        return Ok(Outcome::Between(least, most));
    };
    let holds = |comparison: Comparison, value: f64| comparison.holds(value, bound);
    match (holds(comparison, least), holds(comparison, most)) {
        (a, b) if a == b => Ok(Outcome::Truth(a)),
        _ => Err(Error::Property {
            reason: format!(
                "the space is truncated and the value lies between {least} and {most}, the bound {bound} between them: \
                 truncate less"
            ),
        }),
    }
}
