//! Properties resolved against a program.

mod formula;
mod paths;

use std::cell::Cell;

pub(crate) use formula::{Branch, Comparison, Filter, Formula, Linear, Operation, Operator, Query};

use super::NO_RENAMES;
use super::scope::{Scope, nearest};
use crate::error::Error;
use crate::expr::{Arithmetic, Compare, Expr, Kind, Rounding};
use crate::program::Program;
use crate::source::Span;
use crate::syntax::ast::{self, Binary, ExprKind, FilterKind, Function, RewardName};

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
        if !has_question(expr) {
            let resolved = self.scope.resolve(expr, &NO_RENAMES)?;
            return Ok(match resolved.kind() {
                Kind::Bool => Formula::Plain(resolved),
                _ => Formula::Value(resolved),
            });
        }
        Ok(match &expr.kind {
            ExprKind::Label(label) => match label.as_str() {
                "init" => Formula::Initial,
                "deadlock" => Formula::Deadlock,
                _ => match self.program.labels.iter().find(|(name, _)| name == label) {
                    Some((_, condition)) => Formula::Plain(condition.clone()),
                    None => self.reference(label, expr.span)?,
                },
            },
            ExprKind::Query(query) => Formula::Query(Box::new(self.query(query)?)),
            ExprKind::Branching(exists, path) => {
                Formula::Branching(*exists, Box::new(self.branch(path, expr.span)?))
            }
            ExprKind::Filter(filter) => self.filter(filter)?,
            ExprKind::Path(path) => {
                return Err(Error::with_help(
                    expr.span,
                    format!(
                        "`{}` makes a path where a condition on states is wanted",
                        path.word()
                    ),
                    "a condition on the paths from a state is written P>=0.9 [ F … ]",
                ));
            }
            ExprKind::Not(a) => Formula::Not(Box::new(self.truth(a)?)),
            ExprKind::Minus(a) => Formula::Operation(
                Operation::Arithmetic(Arithmetic::Subtract),
                vec![Formula::Value(Expr::Int(0)), self.number_of(a)?],
            ),
            ExprKind::Binary(operator, a, b) => self.binary(*operator, a, b)?,
            ExprKind::IfThenElse(condition, yes, no) => {
                let (condition, first, second) =
                    (self.truth(condition)?, self.operand(yes)?, self.operand(no)?);
                if first.is_number() != second.is_number() {
                    return Err(Error::at(
                        expr.span,
                        "the two sides of `?` are of different types",
                    ));
                }
                Formula::Operation(Operation::IfThenElse, vec![condition, first, second])
            }
            ExprKind::Call(function, arguments) => self.call(*function, arguments)?,
            ExprKind::Int(_) | ExprKind::Real(_) | ExprKind::Bool(_) | ExprKind::Name(_) => {
                unreachable!("names and constants have no question in them")
            }
        })
    }

    fn binary(&self, operator: Binary, a: &ast::Expr, b: &ast::Expr) -> Result<Formula, Error> {
        let truths = || Ok::<_, Error>((Box::new(self.truth(a)?), Box::new(self.truth(b)?)));
        let compare = |how, a: &ast::Expr, b: &ast::Expr| {
            let parts = vec![self.number_of(a)?, self.number_of(b)?];
            Ok(Formula::Operation(Operation::Compare(how), parts))
        };
        let compute = |how| {
            let parts = vec![self.number_of(a)?, self.number_of(b)?];
            Ok(Formula::Operation(Operation::Arithmetic(how), parts))
        };
        Ok(match operator {
            Binary::And => {
                let (a, b) = truths()?;
                Formula::And(a, b)
            }
            Binary::Or => {
                let (a, b) = truths()?;
                Formula::Or(a, b)
            }
            Binary::Implies => {
                let (a, b) = truths()?;
                Formula::Or(Box::new(Formula::Not(a)), b)
            }
            Binary::Iff => {
                let (a, b) = truths()?;
                Formula::Iff(a, b)
            }
            Binary::Equal | Binary::NotEqual if !self.operand(a)?.is_number() => {
                let (a, b) = truths()?;
                match operator {
                    Binary::Equal => Formula::Iff(a, b),
                    _ => Formula::Not(Box::new(Formula::Iff(a, b))),
                }
            }
            Binary::Equal => return compare(Compare::Equal, a, b),
            Binary::NotEqual => return compare(Compare::NotEqual, a, b),
            Binary::Less => return compare(Compare::Less, a, b),
            Binary::LessOrEqual => return compare(Compare::LessOrEqual, a, b),
            Binary::Greater => return compare(Compare::Less, b, a),
            Binary::GreaterOrEqual => return compare(Compare::LessOrEqual, b, a),
            Binary::Add => return compute(Arithmetic::Add),
            Binary::Subtract => return compute(Arithmetic::Subtract),
            Binary::Multiply => return compute(Arithmetic::Multiply),
            Binary::Divide => return compute(Arithmetic::Divide),
        })
    }

    fn call(&self, function: Function, arguments: &[ast::Expr]) -> Result<Formula, Error> {
        let mut parts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            parts.push(self.number_of(argument)?);
        }
        let operation = match function {
            Function::Floor => return Ok(Formula::Operation(Operation::Round(Rounding::Floor), parts)),
            Function::Ceil => return Ok(Formula::Operation(Operation::Round(Rounding::Ceil), parts)),
            Function::Round => return Ok(Formula::Operation(Operation::Round(Rounding::Nearest), parts)),
            Function::Min => Arithmetic::Min,
            Function::Max => Arithmetic::Max,
            Function::Pow => Arithmetic::Pow,
            Function::Mod => Arithmetic::Mod,
            Function::Log => Arithmetic::Log,
        };
        Ok(Formula::Operation(Operation::Arithmetic(operation), parts))
    }

    fn filter(&self, filter: &ast::Filter) -> Result<Formula, Error> {
        let of = self.operand(&filter.of)?;
        if let Some(truths) = filter.kind.of_truths()
            && truths == of.is_number()
        {
            let (reason, help) = if truths {
                (
                    "asks for yes and no",
                    "give the question a bound, as in P>=0.9 [ … ]",
                )
            } else {
                ("asks for numbers", "write =? instead of the bound")
            };
            return Err(Error::with_help(
                filter.of.span,
                format!("the filter {} {reason}", filter.kind.name()),
                help,
            ));
        }
        Ok(Formula::Filter(Box::new(Filter {
            kind: filter.kind,
            of,
            states: self.truth(&filter.states)?,
        })))
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
            ast::Operator::Steady(inner) => Operator::Steady(self.truth(inner)?),
            ast::Operator::Reward(name, path) => {
                let place = self.reward(name.as_ref())?;
                match path {
                    ast::RewardPath::Path(path) => self.path_reward(place, path)?,
                    ast::RewardPath::Total => Operator::TotalReward(place),
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
        Ok(Query { operator, bound })
    }

    /// A part of a question or of arithmetic.
    fn operand(&self, expr: &ast::Expr) -> Result<Formula, Error> {
        let formula = self.formula(expr)?;
        if let Formula::Filter(filter) = &formula
            && (filter.kind == FilterKind::Range
                || (filter.kind.names_states() && filter.kind != FilterKind::First))
        {
            return Err(Error::with_help(
                expr.span,
                format!(
                    "the filter {} has no single value to go on with",
                    filter.kind.name()
                ),
                "ask it as a property of its own",
            ));
        }
        Ok(formula)
    }

    /// A part that must be true or false.
    fn truth(&self, expr: &ast::Expr) -> Result<Formula, Error> {
        let formula = self.operand(expr)?;
        match &formula {
            Formula::Query(query) if query.bound.is_none() => Err(Error::with_help(
                expr.span,
                "a question that stands for yes or no needs a bound",
                "write P>=0.9 [ … ] rather than P=? [ … ]",
            )),
            other if other.is_number() => Err(Error::at(expr.span, "expected a condition, found a number")),
            _ => Ok(formula),
        }
    }

    /// A part that must be a number.
    fn number_of(&self, expr: &ast::Expr) -> Result<Formula, Error> {
        let formula = self.operand(expr)?;
        if formula.is_number() {
            return Ok(formula);
        }
        Err(Error::at(expr.span, "expected a number, found a truth value"))
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

/// The formula as one condition on the variables, where it is one: then more is known about where a chain may stop.
fn simplified(formula: Formula) -> Formula {
    match formula {
        Formula::Not(a) => match simplified(*a) {
            Formula::Plain(a) => Formula::Plain(Expr::negation(a)),
            other => Formula::Not(Box::new(other)),
        },
        Formula::And(a, b) => match (simplified(*a), simplified(*b)) {
            (Formula::Plain(a), Formula::Plain(b)) => Formula::Plain(Expr::and(vec![a, b])),
            (a, b) => Formula::And(Box::new(a), Box::new(b)),
        },
        other => other,
    }
}

fn has_question(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Label(_)
        | ExprKind::Query(_)
        | ExprKind::Branching(..)
        | ExprKind::Filter(_)
        | ExprKind::Path(_) => true,
        ExprKind::Not(a) | ExprKind::Minus(a) => has_question(a),
        ExprKind::Binary(_, a, b) => has_question(a) || has_question(b),
        ExprKind::IfThenElse(a, b, c) => has_question(a) || has_question(b) || has_question(c),
        ExprKind::Call(_, arguments) => arguments.iter().any(has_question),
        _ => false,
    }
}
