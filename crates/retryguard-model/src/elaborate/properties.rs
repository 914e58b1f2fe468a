//! Properties resolved against a program.

use std::cell::Cell;

use super::NO_RENAMES;
use super::scope::{Scope, nearest};
use crate::error::Error;
use crate::expr::Expr;
use crate::program::Program;
use crate::source::Span;
use crate::syntax::ast::{self, Binary, ExprKind, FilterKind, RewardName};

/// What a state may satisfy.
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    Plain(Expr),
    Initial,
    Not(Box<Formula>),
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
    Iff(Box<Formula>, Box<Formula>),
    Query(Box<Query>),
}

#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) operator: Operator,
    pub(crate) bound: Option<(Comparison, f64)>,
    /// The states whose answers make the answer, and how.
    pub(crate) filter: Option<(FilterKind, Formula)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => value < bound,
            Comparison::LessOrEqual => value <= bound,
            Comparison::Greater => value > bound,
            Comparison::GreaterOrEqual => value >= bound,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operator {
    Next(Formula),
    /// With a lower and an upper bound on the time.
    Until(Formula, Formula, f64, Option<f64>),
    /// As one minus the probability of leaving the states within the time.
    Globally(Formula, f64, Option<f64>),
    /// The reward structure by its place.
    ReachReward(usize, Formula),
    Cumulative(usize, f64),
    Instant(usize, f64),
    SteadyReward(usize),
    Steady(Formula),
}

/// What `asked` means; `named` are the properties that it may refer to.
pub(crate) fn resolve(
    scope: &Scope<'_>,
    program: &Program,
    named: &[ast::Property],
    asked: &ast::Property,
) -> Result<Formula, Error> {
    let resolver = Resolver {
        scope,
        program,
        named,
        within: Cell::new(0),
        followed: Cell::new(0),
    };
    resolver.formula(&asked.formula).map_err(Error::in_properties)
}

/// How many properties may refer to one another in a row.
const MAX_REFERENCES: usize = 20;

/// How many references one property may come to: some that double would fill the memory from a few lines.
const MAX_FOLLOWED: usize = 1_000;

struct Resolver<'s, 'a> {
    scope: &'s Scope<'a>,
    program: &'s Program,
    named: &'s [ast::Property],
    /// References followed to get here.
    within: Cell<usize>,
    /// References followed so far.
    followed: Cell<usize>,
}

impl Resolver<'_, '_> {
    fn formula(&self, expr: &ast::Expr) -> Result<Formula, Error> {
        let pair = |a: &ast::Expr, b: &ast::Expr| {
            Ok::<_, Error>((Box::new(self.inner(a)?), Box::new(self.inner(b)?)))
        };
        Ok(match &expr.kind {
            ExprKind::Label(label) => match label.as_str() {
                "init" => Formula::Initial,
                // A state that nothing leaves is an error of the model, or mended: none is left to be labelled.
                "deadlock" => Formula::Plain(Expr::Bool(false)),
                _ => match self.program.labels.iter().find(|(name, _)| name == label) {
                    Some((_, condition)) => Formula::Plain(condition.clone()),
                    None => self.reference(label, expr.span)?,
                },
            },
            ExprKind::Query(query) => Formula::Query(Box::new(self.query(query)?)),
            ExprKind::Not(a) if has_question(a) => Formula::Not(Box::new(self.inner(a)?)),
            ExprKind::Binary(operator, a, b) if has_question(expr) => {
                if !matches!(operator, Binary::And | Binary::Or | Binary::Implies | Binary::Iff) {
                    return Err(Error::with_help(
                        expr.span,
                        "arithmetic with the answers of questions is not supported",
                        "ask each question as a property of its own, and compute with their values",
                    ));
                }
                let (a, b) = pair(a, b)?;
                match operator {
                    Binary::And => Formula::And(a, b),
                    Binary::Or => Formula::Or(a, b),
                    Binary::Implies => Formula::Or(Box::new(Formula::Not(a)), b),
                    _ => Formula::Iff(a, b),
                }
            }
            _ => Formula::Plain(self.scope.condition(expr, &NO_RENAMES)?),
        })
    }

    /// Another property, by its name.
    fn reference(&self, name: &str, span: Span) -> Result<Formula, Error> {
        let Some(property) = self.named.iter().find(|p| p.name.as_deref() == Some(name)) else {
            let reason = format!("there is no label \"{name}\"");
            let known = self.program.labels.iter().map(|(label, _)| label.as_str());
            return Err(match nearest(name, known) {
                Some(known) => Error::with_help(span, reason, format!("did you mean \"{known}\"?")),
                None => Error::at(span, reason),
            });
        };
        let within = self.within.get() + 1;
        self.followed.set(self.followed.get() + 1);
        if within > MAX_REFERENCES || self.followed.get() > MAX_FOLLOWED {
            return Err(Error::at(
                span,
                "the properties here refer to themselves, or to too many others",
            ));
        }
        self.within.set(within);
        let formula = self.formula(&property.formula);
        self.within.set(within - 1);
        formula
    }

    fn query(&self, query: &ast::Query) -> Result<Query, Error> {
        let operator = match &query.operator {
            ast::Operator::Probability(path) => self.path(path)?,
            ast::Operator::Steady(inner) => Operator::Steady(self.inner(inner)?),
            ast::Operator::Reward(name, path) => {
                let place = self.reward(name.as_ref())?;
                match path {
                    ast::RewardPath::Reach(target) => Operator::ReachReward(place, self.inner(target)?),
                    ast::RewardPath::Cumulative(time) => Operator::Cumulative(place, self.time(time)?),
                    ast::RewardPath::Instant(time) => Operator::Instant(place, self.time(time)?),
                    ast::RewardPath::Steady => Operator::SteadyReward(place),
                }
            }
        };
        let bound = match &query.bound {
            None => None,
            Some((comparison, value)) => {
                let comparison = match comparison {
                    Binary::Less => Comparison::Less,
                    Binary::LessOrEqual => Comparison::LessOrEqual,
                    Binary::Greater => Comparison::Greater,
                    _ => Comparison::GreaterOrEqual,
                };
                let bound = self.number(value)?;
                let share = !matches!(query.operator, ast::Operator::Reward(..));
                if share && !(0.0..=1.0).contains(&bound) {
                    return Err(Error::at(
                        value.span,
                        format!("no probability is compared with {bound}: give a bound from 0 to 1"),
                    ));
                }
                Some((comparison, bound))
            }
        };
        let filter = match &query.filter {
            None => None,
            Some(filter) => Some((filter.kind, self.inner(&filter.states)?)),
        };
        Ok(Query {
            operator,
            bound,
            filter,
        })
    }

    /// A part of a question or of a condition: what it asks must have a yes or a no.
    fn inner(&self, expr: &ast::Expr) -> Result<Formula, Error> {
        let formula = self.formula(expr)?;
        if let Formula::Query(query) = &formula
            && query.filter.is_some()
        {
            return Err(Error::with_help(
                expr.span,
                "a question with a filter stands inside another, or is joined with another",
                "ask it as a property of its own",
            ));
        }
        if let Formula::Query(query) = &formula
            && query.bound.is_none()
        {
            return Err(Error::with_help(
                expr.span,
                "a question inside another, or joined with another, needs a bound",
                "write P>=0.9 [ … ] rather than P=? [ … ]",
            ));
        }
        Ok(formula)
    }

    fn path(&self, path: &ast::Path) -> Result<Operator, Error> {
        Ok(match path {
            ast::Path::Next(inner) => Operator::Next(self.inner(inner)?),
            ast::Path::Until(left, right, bound) => {
                let (lower, upper) = self.interval(bound)?;
                Operator::Until(self.inner(left)?, self.inner(right)?, lower, upper)
            }
            ast::Path::Globally(inner, bound) => {
                let (lower, upper) = self.interval(bound)?;
                Operator::Globally(self.inner(inner)?, lower, upper)
            }
        })
    }

    fn interval(&self, bound: &ast::TimeBound) -> Result<(f64, Option<f64>), Error> {
        let lower = match &bound.lower {
            Some(lower) => self.time(lower)?,
            None => 0.0,
        };
        let upper = match &bound.upper {
            Some(upper) => {
                let value = self.time(upper)?;
                if value < lower {
                    return Err(Error::at(upper.span, "the interval of time is empty"));
                }
                Some(value)
            }
            None => None,
        };
        Ok((lower, upper))
    }

    fn time(&self, expr: &ast::Expr) -> Result<f64, Error> {
        let value = self.number(expr)?;
        if !(value >= 0.0 && value.is_finite()) {
            return Err(Error::at(
                expr.span,
                format!("a time cannot be {value}: it is at least 0 and finite"),
            ));
        }
        Ok(value)
    }

    fn number(&self, expr: &ast::Expr) -> Result<f64, Error> {
        self.scope
            .value(expr)?
            .number()
            .ok_or_else(|| Error::at(expr.span, "expected a number, found a truth value"))
    }

    fn reward(&self, name: Option<&RewardName>) -> Result<usize, Error> {
        let rewards = &self.program.rewards;
        match name {
            None if rewards.is_empty() => Err(Error::Property {
                reason:
                    "the model has no rewards: R=? needs some, as in `rewards \"time\" true : 1; endrewards`"
                        .to_owned(),
            }),
            None => Ok(0),
            Some(RewardName::Label(name)) => rewards
                .iter()
                .position(|reward| reward.name.as_deref() == Some(&name.text))
                .ok_or_else(|| {
                    let reason = format!("there are no rewards \"{}\"", name.text);
                    let known = rewards.iter().filter_map(|reward| reward.name.as_deref());
                    match nearest(&name.text, known) {
                        Some(known) => {
                            Error::with_help(name.span, reason, format!("did you mean \"{known}\"?"))
                        }
                        None => Error::at(name.span, reason),
                    }
                }),
            Some(RewardName::Place(place, span)) => usize::try_from(*place)
                .ok()
                .and_then(|place| place.checked_sub(1))
                .filter(|place| *place < rewards.len())
                .ok_or_else(|| Error::at(*span, format!("there are no rewards number {place}"))),
        }
    }
}

fn has_question(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Label(_) | ExprKind::Query(_) => true,
        ExprKind::Not(a) | ExprKind::Minus(a) => has_question(a),
        ExprKind::Binary(_, a, b) => has_question(a) || has_question(b),
        ExprKind::IfThenElse(a, b, c) => has_question(a) || has_question(b) || has_question(c),
        ExprKind::Call(_, arguments) => arguments.iter().any(has_question),
        _ => false,
    }
}
