//! What a property means, once every name in it is known.

use crate::expr::{Arithmetic, Compare, Expr, Rounding};
use crate::syntax::ast::FilterKind;

/// What a question comes to in a state: a truth value or a number.
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    /// A condition on the variables.
    Plain(Expr),
    /// A number computed from the variables.
    Value(Expr),
    Initial,
    /// The states that nothing leaves, and that were given a loop.
    Deadlock,
    Not(Box<Formula>),
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
    Iff(Box<Formula>, Box<Formula>),
    Operation(Operation, Vec<Formula>),
    Query(Box<Query>),
    /// Whether there is a path (true), or every path is one (false).
    Branching(bool, Box<Branch>),
    Filter(Box<Filter>),
}

/// What is computed from numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Arithmetic(Arithmetic),
    Round(Rounding),
    /// A truth value.
    Compare(Compare),
    /// Of a truth value and two of either kind.
    IfThenElse,
}

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) kind: FilterKind,
    pub(crate) of: Formula,
    pub(crate) states: Formula,
}

/// A path of branching time, without probabilities.
#[derive(Clone, Debug)]
pub(crate) enum Branch {
    Next(Formula),
    Until(Formula, Formula),
    /// Several path operators.
    Linear(Linear),
    Not(Box<Branch>),
}

impl Formula {
    /// Whether it is a number rather than a truth value.
    pub(crate) fn is_number(&self) -> bool {
        match self {
            Formula::Value(_) => true,
            Formula::Query(query) => query.bound.is_none(),
            Formula::Operation(Operation::IfThenElse, parts) => parts.last().is_some_and(Formula::is_number),
            Formula::Operation(Operation::Compare(_), _) => false,
            Formula::Operation(..) => true,
            Formula::Filter(filter) => match filter.kind {
                FilterKind::ForAll | FilterKind::Exists => false,
                FilterKind::State | FilterKind::First => filter.of.is_number(),
                _ => true,
            },
            _ => false,
        }
    }

    /// Whether `test` holds for this formula or for a part of it.
    pub(crate) fn any(&self, test: &impl Fn(&Formula) -> bool) -> bool {
        test(self)
            || match self {
                Formula::Plain(_) | Formula::Value(_) | Formula::Initial | Formula::Deadlock => false,
                Formula::Not(a) => a.any(test),
                Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => a.any(test) || b.any(test),
                Formula::Operation(_, parts) => parts.iter().any(|part| part.any(test)),
                Formula::Query(query) => query.operator.parts().iter().any(|part| part.any(test)),
                Formula::Branching(_, branch) => branch.parts().iter().any(|part| part.any(test)),
                Formula::Filter(filter) => filter.of.any(test) || filter.states.any(test),
            }
    }
}

impl Formula {
    /// Calls `change` with every expression over the variables.
    pub(crate) fn each_expression(&mut self, change: &mut impl FnMut(&mut Expr)) {
        match self {
            Formula::Plain(expr) | Formula::Value(expr) => change(expr),
            Formula::Initial | Formula::Deadlock => {}
            Formula::Not(a) => a.each_expression(change),
            Formula::And(a, b) | Formula::Or(a, b) | Formula::Iff(a, b) => {
                a.each_expression(change);
                b.each_expression(change);
            }
            Formula::Operation(_, parts) => parts.iter_mut().for_each(|part| part.each_expression(change)),
            Formula::Query(query) => {
                let parts = query.operator.parts_mut();
                parts.into_iter().for_each(|part| part.each_expression(change));
            }
            Formula::Branching(_, branch) => {
                let parts = branch.parts_mut();
                parts.into_iter().for_each(|part| part.each_expression(change));
            }
            Formula::Filter(filter) => {
                filter.of.each_expression(change);
                filter.states.each_expression(change);
            }
        }
    }
}

/// A path of linear time, without bounds on the time: what more than one path operator comes to.
#[derive(Clone, Debug)]
pub(crate) enum Linear {
    /// A condition on the first state of the path.
    State(Formula),
    Not(Box<Linear>),
    And(Box<Linear>, Box<Linear>),
    Next(Box<Linear>),
    Until(Box<Linear>, Box<Linear>),
}

impl Linear {
    fn parts_mut(&mut self) -> Vec<&mut Formula> {
        match self {
            Linear::State(formula) => vec![formula],
            Linear::Not(a) | Linear::Next(a) => a.parts_mut(),
            Linear::And(a, b) | Linear::Until(a, b) => {
                let mut parts = a.parts_mut();
                parts.extend(b.parts_mut());
                parts
            }
        }
    }

    /// Whether a path that fulfils it (true), or that does not (false), does so after finitely many steps, whatever follows.
    pub(crate) fn comes_true(&self, wanted: bool) -> bool {
        match self {
            Linear::State(_) => true,
            Linear::Not(a) => a.comes_true(!wanted),
            Linear::Next(a) => a.comes_true(wanted),
            Linear::And(a, b) => a.comes_true(wanted) && b.comes_true(wanted),
            Linear::Until(a, b) => wanted && a.comes_true(true) && b.comes_true(true),
        }
    }

    /// The conditions that it is made of, in the order of the text.
    pub(crate) fn parts(&self) -> Vec<&Formula> {
        match self {
            Linear::State(formula) => vec![formula],
            Linear::Not(a) | Linear::Next(a) => a.parts(),
            Linear::And(a, b) | Linear::Until(a, b) => {
                let mut parts = a.parts();
                parts.extend(b.parts());
                parts
            }
        }
    }
}

impl Branch {
    fn parts_mut(&mut self) -> Vec<&mut Formula> {
        match self {
            Branch::Next(a) => vec![a],
            Branch::Until(a, b) => vec![a, b],
            Branch::Linear(path) => path.parts_mut(),
            Branch::Not(inner) => inner.parts_mut(),
        }
    }

    /// The conditions that it is made of.
    pub(crate) fn parts(&self) -> Vec<&Formula> {
        match self {
            Branch::Next(a) => vec![a],
            Branch::Until(a, b) => vec![a, b],
            Branch::Linear(path) => path.parts(),
            Branch::Not(inner) => inner.parts(),
        }
    }
}

impl Operator {
    /// The conditions that it is made of.
    pub(crate) fn parts(&self) -> Vec<&Formula> {
        match self {
            Operator::Next(a, ..) | Operator::ReachReward(_, a) | Operator::Steady(a) => vec![a],
            Operator::Until(a, b, ..) | Operator::NotUntil(a, b, ..) => vec![a, b],
            Operator::Linear(path) | Operator::PathReward(_, path) => path.parts(),
            Operator::TotalReward(_)
            | Operator::Cumulative(..)
            | Operator::Instant(..)
            | Operator::SteadyReward(_) => Vec::new(),
        }
    }

    fn parts_mut(&mut self) -> Vec<&mut Formula> {
        match self {
            Operator::Next(a, ..) | Operator::ReachReward(_, a) | Operator::Steady(a) => vec![a],
            Operator::Until(a, b, ..) | Operator::NotUntil(a, b, ..) => vec![a, b],
            Operator::Linear(path) | Operator::PathReward(_, path) => path.parts_mut(),
            Operator::TotalReward(_)
            | Operator::Cumulative(..)
            | Operator::Instant(..)
            | Operator::SteadyReward(_) => Vec::new(),
        }
    }

    /// The reward structure that it is about.
    pub(crate) fn reward(&self) -> Option<usize> {
        match self {
            Operator::ReachReward(place, _)
            | Operator::PathReward(place, _)
            | Operator::TotalReward(place)
            | Operator::Cumulative(place, _)
            | Operator::Instant(place, _)
            | Operator::SteadyReward(place) => Some(*place),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) operator: Operator,
    pub(crate) bound: Option<(Comparison, f64)>,
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
    /// With a lower and an upper bound on the time.
    Next(Formula, f64, Option<f64>),
    Until(Formula, Formula, f64, Option<f64>),
    /// That the until does not hold: what G, W and R come to.
    NotUntil(Formula, Formula, f64, Option<f64>),
    /// Several path operators, without bounds on the time.
    Linear(Linear),
    /// The reward structure by its place.
    ReachReward(usize, Formula),
    /// Up to the moment at which a path is fulfilled that is so after finitely many steps, if it is at all.
    PathReward(usize, Linear),
    TotalReward(usize),
    Cumulative(usize, f64),
    Instant(usize, f64),
    SteadyReward(usize),
    Steady(Formula),
}
