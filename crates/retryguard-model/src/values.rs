//! What a question comes to in every state of a chain.

use crate::check::Outcome;
use crate::drift::Bounded;
use crate::elaborate::properties::{Formula, Operator, Query};
use crate::error::Error;
use crate::expr::Expr;
use crate::session::{Built, NO_UPPER_BOUND, Session, earned, slot};
use crate::solve;
use crate::truncated::{self, Explored};

impl Session<'_> {
    /// The value on a truncated chain, between two numbers.
    pub(crate) fn between(
        &self,
        built: &Built,
        query: &Query,
        notes: &mut Vec<String>,
    ) -> Result<Outcome, Error> {
        let explored = Explored {
            program: self.program,
            chain: &built.chain,
            max_steps: self.options.max_steps,
        };
        let (least, most) = match &query.operator {
            Operator::Until(left, right, lower, upper) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                explored.until(&left, &right, *lower, *upper)?
            }
            Operator::Globally(inner, lower, upper) => {
                let outside: Vec<bool> = self.truths(built, inner)?.iter().map(|t| !t).collect();
                let anywhere = vec![true; outside.len()];
                let (least, most) = explored.until(&anywhere, &outside, *lower, *upper)?;
                (1.0 - most, 1.0 - least)
            }
            Operator::ReachReward(place, target) => {
                let reached = self.truths(built, target)?;
                let earned = earned(&built.chain, slot(&built.wanted, *place));
                let bounded = Bounded {
                    program: self.program,
                    reduction: &built.reduction,
                    chain: &built.chain,
                    reward: *place,
                    target,
                    reached: &reached,
                    earned: &earned,
                };
                match (explored.least_reward(&reached, &earned)?, bounded.upper()?) {
                    // Nothing is beyond the edge: the two differ by what the solver may.
                    ((least, false), _) => (least, truncated::raised(truncated::raised(least))),
                    ((least, true), Ok(most)) => (least, truncated::raised(most).max(least)),
                    ((least, true), Err(reason)) => {
                        notes.push(format!("no upper bound: {reason}; {NO_UPPER_BOUND}"));
                        (least, f64::INFINITY)
                    }
                }
            }
            Operator::Cumulative(place, time) => {
                let earned = earned(&built.chain, slot(&built.wanted, *place));
                explored.cumulative(*place, &earned, *time)?
            }
            _ => unreachable!("only questions that can be truncated are"),
        };
        truncated::outcome(query, least, most)
    }

    /// The number that a question has in every state.
    pub(crate) fn values(&self, built: &Built, query: &Query) -> Result<Vec<f64>, Error> {
        let chain = &built.chain;
        let limit = self.options.max_steps;
        match &query.operator {
            Operator::Next(inner) => Ok(solve::next(chain, &self.truths(built, inner)?)),
            Operator::Until(left, right, lower, upper) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                if *lower == 0.0 && upper.is_none() {
                    solve::until(chain, &left, &right)
                } else {
                    solve::bounded_until(chain, &left, &right, *lower, *upper, limit)
                }
            }
            Operator::Globally(inner, lower, upper) => {
                let outside: Vec<bool> = self.truths(built, inner)?.iter().map(|t| !t).collect();
                let anywhere = vec![true; outside.len()];
                let leave = if *lower == 0.0 && upper.is_none() {
                    solve::until(chain, &anywhere, &outside)?
                } else {
                    solve::bounded_until(chain, &anywhere, &outside, *lower, *upper, limit)?
                };
                Ok(leave.iter().map(|p| 1.0 - p).collect())
            }
            Operator::ReachReward(place, target) => {
                let target = self.truths(built, target)?;
                solve::reach_rewards(chain, &target, &earned(chain, slot(&built.wanted, *place)))
            }
            Operator::Cumulative(place, time) => {
                solve::cumulative(chain, &earned(chain, slot(&built.wanted, *place)), *time, limit)
            }
            Operator::Instant(place, time) => {
                // Transitions take no time, so nothing of them is earned at an instant.
                let rewards = &chain.state_rewards[slot(&built.wanted, *place)];
                solve::instant(chain, rewards, *time, limit)
            }
            Operator::SteadyReward(place) => {
                solve::steady_reward(chain, &earned(chain, slot(&built.wanted, *place)))
            }
            Operator::Steady(inner) => solve::steady_probability(chain, &self.truths(built, inner)?),
        }
    }

    /// Where a formula holds.
    pub(crate) fn truths(&self, built: &Built, formula: &Formula) -> Result<Vec<bool>, Error> {
        let states = built.chain.states();
        let join = |a: &Formula, b: &Formula, f: fn(bool, bool) -> bool| {
            let (a, b) = (self.truths(built, a)?, self.truths(built, b)?);
            Ok::<_, Error>(a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect())
        };
        Ok(match formula {
            Formula::Plain(Expr::Bool(value)) => vec![*value; states],
            Formula::Plain(expr) => {
                let place = built
                    .wanted
                    .conditions
                    .iter()
                    .position(|condition| condition == expr)
                    .expect("every condition was collected");
                built.chain.conditions[place].clone()
            }
            Formula::Initial => {
                let mut truths = vec![false; states];
                for s in &built.chain.initial {
                    truths[*s as usize] = true;
                }
                truths
            }
            Formula::Not(a) => self.truths(built, a)?.iter().map(|a| !a).collect(),
            Formula::And(a, b) => join(a, b, |a, b| a && b)?,
            Formula::Or(a, b) => join(a, b, |a, b| a || b)?,
            Formula::Iff(a, b) => join(a, b, |a, b| a == b)?,
            Formula::Query(query) => {
                let values = self.values(built, query)?;
                let (comparison, bound) = query.bound.expect("a question inside another has a bound");
                values
                    .iter()
                    .map(|value| comparison.holds(*value, bound))
                    .collect()
            }
        })
    }
}
