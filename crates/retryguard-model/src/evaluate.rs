//! What a question comes to in every state of a chain.

use crate::answer::Outcome;
use crate::chain::Chain;
use crate::drift::Bounded;
use crate::elaborate::properties::{Branch, Filter, Formula, Linear, Operator, Query};
use crate::error::Error;
use crate::expr::Expr;
use crate::filter::{self, Filtered};
use crate::options::Options;
use crate::path_reward;
use crate::program::Program;
use crate::reduce::Reduction;
use crate::solve;
use crate::some_path;
use crate::split;
use crate::truncated::{self, Explored, NO_UPPER_BOUND};
use crate::values::{Values, computed};
use crate::wanted::Wanted;

/// A chain and where it keeps what was wanted of it.
pub(crate) struct Evaluation<'e> {
    pub(crate) program: &'e Program,
    pub(crate) options: &'e Options,
    pub(crate) chain: &'e Chain,
    pub(crate) wanted: &'e Wanted,
    pub(crate) reduction: &'e Reduction,
}

impl Evaluation<'_> {
    /// The value on a truncated chain, between two numbers.
    pub(crate) fn between(&self, query: &Query, notes: &mut Vec<String>) -> Result<Outcome, Error> {
        let explored = Explored {
            program: self.program,
            chain: self.chain,
            max_steps: self.options.max_steps,
        };
        let (least, most) = match &query.operator {
            Operator::Until(left, right, lower, upper) => {
                let (left, right) = (self.truths(left)?, self.truths(right)?);
                explored.until(&left, &right, *lower, *upper)?
            }
            Operator::NotUntil(left, right, lower, upper) => {
                let (left, right) = (self.truths(left)?, self.truths(right)?);
                let (least, most) = explored.until(&left, &right, *lower, *upper)?;
                (1.0 - most, 1.0 - least)
            }
            Operator::ReachReward(place, target) => {
                let reached = self.truths(target)?;
                let earned = earned(self.chain, slot(self.wanted, *place));
                let bounded = Bounded {
                    program: self.program,
                    reduction: self.reduction,
                    chain: self.chain,
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
                let earned = earned(self.chain, slot(self.wanted, *place));
                explored.cumulative(*place, &earned, *time)?
            }
            _ => unreachable!("only questions that can be truncated are"),
        };
        truncated::outcome(query, least, most)
    }

    /// The number that a question has in every state.
    fn numbers(&self, query: &Query) -> Result<Vec<f64>, Error> {
        let chain = self.chain;
        let limit = self.options.max_steps;
        let earned = |place: usize| earned(chain, slot(self.wanted, place));
        let until = |left: &Formula, right: &Formula, lower: f64, upper: Option<f64>| {
            let (left, right) = (self.truths(left)?, self.truths(right)?);
            if lower == 0.0 && upper.is_none() {
                solve::until(chain, &left, &right)
            } else {
                solve::bounded_until(chain, &left, &right, lower, upper, limit)
            }
        };
        let values = match &query.operator {
            Operator::Next(inner, lower, upper) => solve::next(chain, &self.truths(inner)?, *lower, *upper),
            Operator::Until(left, right, lower, upper) => until(left, right, *lower, *upper)?,
            Operator::NotUntil(left, right, lower, upper) => {
                let left = until(left, right, *lower, *upper)?;
                left.iter().map(|p| 1.0 - p).collect()
            }
            Operator::Linear(path) => {
                let truths = path.parts().into_iter().map(|part| self.truths(part));
                split::probability(chain, path, truths.collect::<Result<_, _>>()?)?
            }
            Operator::ReachReward(place, target) => {
                solve::reach_rewards(chain, &self.truths(target)?, &earned(*place))?
            }
            Operator::PathReward(place, path) => {
                let truths = path.parts().into_iter().map(|part| self.truths(part));
                path_reward::rewards(
                    chain,
                    path,
                    &truths.collect::<Result<Vec<_>, _>>()?,
                    &earned(*place),
                )?
            }
            Operator::TotalReward(place) => solve::total_rewards(chain, &earned(*place))?,
            Operator::Cumulative(place, time) => solve::cumulative(chain, &earned(*place), *time, limit)?,
            Operator::Instant(place, time) => {
                // Transitions take no time, so nothing of them is earned at an instant.
                let rewards = &chain.state_rewards[slot(self.wanted, *place)];
                solve::instant(chain, rewards, *time, limit)?
            }
            Operator::SteadyReward(place) => solve::steady_reward(chain, &earned(*place))?,
            Operator::Steady(inner) => solve::steady_probability(chain, &self.truths(inner)?)?,
        };
        if values.iter().any(|value| value.is_nan()) {
            return Err(Error::Property {
                reason: "the rates of this chain are too far apart for doubles".to_owned(),
            });
        }
        Ok(values)
    }

    /// What a formula comes to in every state.
    pub(crate) fn evaluate(&self, formula: &Formula) -> Result<Values, Error> {
        let states = self.chain.states();
        let join = |a: &Formula, b: &Formula, f: fn(bool, bool) -> bool| {
            let (a, b) = (self.truths(a)?, self.truths(b)?);
            Ok::<_, Error>(Values::Truths(a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect()))
        };
        Ok(match formula {
            Formula::Plain(Expr::Bool(value)) => Values::Truths(vec![*value; states]),
            Formula::Plain(expr) => {
                let place = position(&self.wanted.conditions, expr);
                Values::Truths(self.chain.conditions[place].clone())
            }
            Formula::Value(Expr::Int(value)) => Values::Numbers(vec![*value as f64; states]),
            Formula::Value(Expr::Real(value)) => Values::Numbers(vec![value.get(); states]),
            Formula::Value(expr) => {
                let place = position(&self.wanted.values, expr);
                Values::Numbers(self.chain.values[place].clone())
            }
            Formula::Initial => Values::Truths(marked(states, &self.chain.initial)),
            Formula::Deadlock => Values::Truths(marked(states, &self.chain.deadlocks)),
            Formula::Not(a) => Values::Truths(self.truths(a)?.iter().map(|a| !a).collect()),
            Formula::And(a, b) => join(a, b, |a, b| a && b)?,
            Formula::Or(a, b) => join(a, b, |a, b| a || b)?,
            Formula::Iff(a, b) => join(a, b, |a, b| a == b)?,
            Formula::Operation(operation, parts) => {
                let parts = parts.iter().map(|part| self.evaluate(part));
                computed(*operation, parts.collect::<Result<_, _>>()?)
            }
            Formula::Query(query) => {
                let values = self.numbers(query)?;
                match query.bound {
                    None => Values::Numbers(values),
                    Some((comparison, bound)) => {
                        let holds = |value: &f64| comparison.holds(*value, bound);
                        Values::Truths(values.iter().map(holds).collect())
                    }
                }
            }
            Formula::Branching(exists, branch) => {
                let found = match exists {
                    true => self.exists(branch)?,
                    // Every path is one if none is not.
                    false => {
                        let not = self.exists(&Branch::Not(Box::new((**branch).clone())))?;
                        not.iter().map(|a| !a).collect()
                    }
                };
                Values::Truths(found)
            }
            Formula::Filter(filter) => match self.filtered(filter, "a filter within a property")?.0 {
                Outcome::Number(value) => Values::Numbers(vec![value; states]),
                Outcome::Truth(value) => Values::Truths(vec![value; states]),
                _ => unreachable!("a filter without a single value is refused as a part"),
            },
        })
    }

    /// Where a formula holds.
    pub(crate) fn truths(&self, formula: &Formula) -> Result<Vec<bool>, Error> {
        match self.evaluate(formula)? {
            Values::Truths(truths) => Ok(truths),
            Values::Numbers(_) => unreachable!("the resolver refuses a number where a condition is wanted"),
        }
    }

    /// The outcome of a filter, and the states that it names.
    pub(crate) fn filtered(&self, filter: &Filter, text: &str) -> Result<Filtered, Error> {
        let values = self.evaluate(&filter.of)?;
        let states = self.truths(&filter.states)?;
        let mut chosen: Vec<usize> = (0..states.len()).filter(|s| states[*s]).collect();
        if filter.kind.names_states() {
            chosen.sort_by_key(|s| self.valuation(*s));
        }
        filter::outcome(filter.kind, &values, &chosen, text)
    }

    /// The values of the variables in a state, for questions that keep them.
    pub(crate) fn valuation(&self, state: usize) -> &[i64] {
        let width = self.program.variables.len();
        &self.chain.valuations[state * width..(state + 1) * width]
    }

    /// Where some path is as described.
    fn exists(&self, branch: &Branch) -> Result<Vec<bool>, Error> {
        let chain = self.chain;
        solve::walk_fits(chain)?;
        let not = |truths: Vec<bool>| truths.iter().map(|a| !a).collect::<Vec<bool>>();
        Ok(match branch {
            Branch::Next(inner) => solve::some_next(chain, &self.truths(inner)?),
            Branch::Until(left, right) => {
                let (left, right) = (self.truths(left)?, self.truths(right)?);
                solve::can_reach(chain, &right, |s| left[s])
            }
            Branch::Linear(path) => self.some_path(path, true)?,
            Branch::Not(inner) => match &**inner {
                Branch::Linear(path) => self.some_path(path, false)?,
                Branch::Next(inner) => solve::some_next(chain, &not(self.truths(inner)?)),
                // The right side never comes, or after the left side has ended.
                Branch::Until(left, right) => {
                    let (left, right) = (self.truths(left)?, self.truths(right)?);
                    let off: Vec<bool> = right.iter().map(|right| !right).collect();
                    let ended: Vec<bool> = left.iter().zip(&off).map(|(left, off)| !left && *off).collect();
                    let ends = solve::can_reach(chain, &ended, |s| off[s]);
                    let stays = solve::can_stay(chain, &off);
                    ends.iter().zip(&stays).map(|(a, b)| *a || *b).collect()
                }
                Branch::Not(inner) => self.exists(inner)?,
            },
        })
    }

    /// Where some path of several operators is as described, or is not.
    fn some_path(&self, path: &Linear, wanted: bool) -> Result<Vec<bool>, Error> {
        let truths = path.parts().into_iter().map(|part| self.truths(part));
        some_path::exists(self.chain, path, &truths.collect::<Result<Vec<_>, _>>()?, wanted)
    }
}

fn position(known: &[Expr], expr: &Expr) -> usize {
    let found = known.iter().position(|known| known == expr);
    found.expect("everything that is asked for was collected")
}

fn marked(states: usize, places: &[u32]) -> Vec<bool> {
    let mut truths = vec![false; states];
    for s in places {
        truths[*s as usize] = true;
    }
    truths
}

/// What a state earns per unit of time, its transitions included.
pub(crate) fn earned(chain: &Chain, slot: usize) -> Vec<f64> {
    chain.state_rewards[slot]
        .iter()
        .zip(&chain.transition_rewards[slot])
        .map(|(state, transitions)| state + transitions)
        .collect()
}

pub(crate) fn slot(wanted: &Wanted, place: usize) -> usize {
    wanted
        .rewards
        .iter()
        .position(|known| *known == place)
        .expect("every reward was collected")
}
