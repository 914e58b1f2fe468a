//! What a question comes to in every state of a chain.

use crate::check::Outcome;
use crate::drift::Bounded;
use crate::elaborate::properties::{Branch, Filter, Formula, Operation, Operator, Query};
use crate::error::Error;
use crate::expr::{Arithmetic, Compare, Expr, Rounding};
use crate::filter::{self, Filtered};
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
            Operator::NotUntil(left, right, lower, upper) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                let (least, most) = explored.until(&left, &right, *lower, *upper)?;
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
    fn numbers(&self, built: &Built, query: &Query) -> Result<Vec<f64>, Error> {
        let chain = &built.chain;
        let limit = self.options.max_steps;
        let earned = |place: usize| earned(chain, slot(&built.wanted, place));
        let until = |left: &Formula, right: &Formula, lower: f64, upper: Option<f64>| {
            let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
            if lower == 0.0 && upper.is_none() {
                solve::until(chain, &left, &right)
            } else {
                solve::bounded_until(chain, &left, &right, lower, upper, limit)
            }
        };
        let values = match &query.operator {
            Operator::Next(inner, lower, upper) => {
                solve::next(chain, &self.truths(built, inner)?, *lower, *upper)
            }
            Operator::Until(left, right, lower, upper) => until(left, right, *lower, *upper)?,
            Operator::NotUntil(left, right, lower, upper) => {
                let left = until(left, right, *lower, *upper)?;
                left.iter().map(|p| 1.0 - p).collect()
            }
            Operator::ReachReward(place, target) => {
                solve::reach_rewards(chain, &self.truths(built, target)?, &earned(*place))?
            }
            Operator::TotalReward(place) => solve::total_rewards(chain, &earned(*place))?,
            Operator::Cumulative(place, time) => solve::cumulative(chain, &earned(*place), *time, limit)?,
            Operator::Instant(place, time) => {
                // Transitions take no time, so nothing of them is earned at an instant.
                let rewards = &chain.state_rewards[slot(&built.wanted, *place)];
                solve::instant(chain, rewards, *time, limit)?
            }
            Operator::SteadyReward(place) => solve::steady_reward(chain, &earned(*place))?,
            Operator::Steady(inner) => solve::steady_probability(chain, &self.truths(built, inner)?)?,
        };
        if values.iter().any(|value| value.is_nan()) {
            return Err(Error::Property {
                reason: "the rates of this chain are too far apart for doubles".to_owned(),
            });
        }
        Ok(values)
    }

    /// What a formula comes to in every state.
    pub(crate) fn evaluate(&self, built: &Built, formula: &Formula) -> Result<Values, Error> {
        let states = built.chain.states();
        let join = |a: &Formula, b: &Formula, f: fn(bool, bool) -> bool| {
            let (a, b) = (self.truths(built, a)?, self.truths(built, b)?);
            Ok::<_, Error>(Values::Truths(a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect()))
        };
        Ok(match formula {
            Formula::Plain(Expr::Bool(value)) => Values::Truths(vec![*value; states]),
            Formula::Plain(expr) => {
                let place = position(&built.wanted.conditions, expr);
                Values::Truths(built.chain.conditions[place].clone())
            }
            Formula::Value(Expr::Int(value)) => Values::Numbers(vec![*value as f64; states]),
            Formula::Value(Expr::Real(value)) => Values::Numbers(vec![value.get(); states]),
            Formula::Value(expr) => {
                let place = position(&built.wanted.values, expr);
                Values::Numbers(built.chain.values[place].clone())
            }
            Formula::Initial => Values::Truths(marked(states, &built.chain.initial)),
            Formula::Deadlock => Values::Truths(marked(states, &built.chain.deadlocks)),
            Formula::Not(a) => Values::Truths(self.truths(built, a)?.iter().map(|a| !a).collect()),
            Formula::And(a, b) => join(a, b, |a, b| a && b)?,
            Formula::Or(a, b) => join(a, b, |a, b| a || b)?,
            Formula::Iff(a, b) => join(a, b, |a, b| a == b)?,
            Formula::Operation(operation, parts) => {
                let parts = parts.iter().map(|part| self.evaluate(built, part));
                computed(*operation, parts.collect::<Result<_, _>>()?)
            }
            Formula::Query(query) => {
                let values = self.numbers(built, query)?;
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
                    true => self.exists(built, branch)?,
                    // Every path is one if none is not.
                    false => {
                        let not = self.exists(built, &Branch::Not(Box::new((**branch).clone())))?;
                        not.iter().map(|a| !a).collect()
                    }
                };
                Values::Truths(found)
            }
            Formula::Filter(filter) => match self.filtered(built, filter, "a filter within a property")?.0 {
                Outcome::Number(value) => Values::Numbers(vec![value; states]),
                Outcome::Truth(value) => Values::Truths(vec![value; states]),
                _ => unreachable!("a filter without a single value is refused as a part"),
            },
        })
    }

    /// Where a formula holds.
    pub(crate) fn truths(&self, built: &Built, formula: &Formula) -> Result<Vec<bool>, Error> {
        match self.evaluate(built, formula)? {
            Values::Truths(truths) => Ok(truths),
            Values::Numbers(_) => unreachable!("the resolver refuses a number where a condition is wanted"),
        }
    }

    /// The outcome of a filter, and the states that it names.
    pub(crate) fn filtered(&self, built: &Built, filter: &Filter, text: &str) -> Result<Filtered, Error> {
        let values = self.evaluate(built, &filter.of)?;
        let states = self.truths(built, &filter.states)?;
        let mut chosen: Vec<usize> = (0..states.len()).filter(|s| states[*s]).collect();
        if filter.kind.names_states() {
            chosen.sort_by_key(|s| self.valuation(built, *s));
        }
        filter::outcome(filter.kind, &values, &chosen, text)
    }

    /// The values of the variables in a state, for questions that keep them.
    pub(crate) fn valuation<'b>(&self, built: &'b Built, state: usize) -> &'b [i64] {
        let width = self.program.variables.len();
        &built.chain.valuations[state * width..(state + 1) * width]
    }

    /// Where some path is as described.
    fn exists(&self, built: &Built, branch: &Branch) -> Result<Vec<bool>, Error> {
        let chain = &built.chain;
        let not = |truths: Vec<bool>| truths.iter().map(|a| !a).collect::<Vec<bool>>();
        Ok(match branch {
            Branch::Next(inner) => solve::some_next(chain, &self.truths(built, inner)?),
            Branch::Until(left, right) => {
                let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                solve::can_reach(chain, &right, |s| left[s])
            }
            Branch::Not(inner) => match &**inner {
                Branch::Next(inner) => solve::some_next(chain, &not(self.truths(built, inner)?)),
                // The right side never comes, or after the left side has ended.
                Branch::Until(left, right) => {
                    let (left, right) = (self.truths(built, left)?, self.truths(built, right)?);
                    let off: Vec<bool> = right.iter().map(|right| !right).collect();
                    let ended: Vec<bool> = left.iter().zip(&off).map(|(left, off)| !left && *off).collect();
                    let ends = solve::can_reach(chain, &ended, |s| off[s]);
                    let stays = solve::can_stay(chain, &off);
                    ends.iter().zip(&stays).map(|(a, b)| *a || *b).collect()
                }
                Branch::Not(inner) => self.exists(built, inner)?,
            },
        })
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

/// What a formula comes to in every state.
pub(crate) enum Values {
    Truths(Vec<bool>),
    Numbers(Vec<f64>),
}

impl Values {
    fn numbers(self) -> Vec<f64> {
        match self {
            Values::Numbers(numbers) => numbers,
            Values::Truths(_) => unreachable!("the resolver refuses a condition where a number is wanted"),
        }
    }
}

/// An operation in every state.
fn computed(operation: Operation, parts: Vec<Values>) -> Values {
    let mut parts = parts.into_iter();
    let first = parts.next().expect("every operation has an operand");
    match operation {
        Operation::IfThenElse => {
            let (Values::Truths(condition), Some(yes), Some(no)) = (first, parts.next(), parts.next()) else {
                unreachable!("a choice has a condition and two sides")
            };
            fn choose<T: Copy>(condition: &[bool], yes: &[T], no: &[T]) -> Vec<T> {
                let places = condition.iter().enumerate();
                places.map(|(s, c)| if *c { yes[s] } else { no[s] }).collect()
            }
            match (yes, no) {
                (Values::Numbers(yes), no) => Values::Numbers(choose(&condition, &yes, &no.numbers())),
                (Values::Truths(yes), Values::Truths(no)) => Values::Truths(choose(&condition, &yes, &no)),
                _ => unreachable!("the two sides are of one type"),
            }
        }
        Operation::Round(rounding) => {
            let round = |value: &f64| match rounding {
                Rounding::Floor => value.floor(),
                Rounding::Ceil => value.ceil(),
                Rounding::Nearest => (value + 0.5).floor(),
            };
            Values::Numbers(first.numbers().iter().map(round).collect())
        }
        Operation::Compare(compare) => {
            let (a, b) = (
                first.numbers(),
                parts.next().map_or_else(Vec::new, Values::numbers),
            );
            let holds = |a: f64, b: f64| match compare {
                Compare::Equal => a == b,
                Compare::NotEqual => a != b,
                Compare::Less => a < b,
                Compare::LessOrEqual => a <= b,
            };
            Values::Truths(a.iter().zip(&b).map(|(a, b)| holds(*a, *b)).collect())
        }
        Operation::Arithmetic(arithmetic) => {
            let compute = |a: f64, b: f64| match arithmetic {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Min => a.min(b),
                Arithmetic::Max => a.max(b),
                Arithmetic::Pow => a.powf(b),
                Arithmetic::Mod => a.rem_euclid(b),
                Arithmetic::Log => a.ln() / b.ln(),
            };
            let folded = parts.fold(first.numbers(), |a, b| {
                a.iter().zip(&b.numbers()).map(|(a, b)| compute(*a, *b)).collect()
            });
            Values::Numbers(folded)
        }
    }
}
