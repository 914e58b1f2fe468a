//! Guards made quick: most are conjunctions of ranges of single variables.

use crate::expr::{Compare, Expr, Fault, Kind};

/// A conjunction: ranges first, then all other conditions.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    ranges: Vec<(usize, i64, i64)>,
    rest: Vec<Expr>,
}

impl Guard {
    pub(super) fn new(expr: &Expr) -> Guard {
        let mut guard = Guard {
            ranges: Vec::new(),
            rest: Vec::new(),
        };
        match expr {
            Expr::Bool(true) => {}
            Expr::And(parts) => parts.iter().for_each(|part| guard.push(part)),
            other => guard.push(other),
        }
        guard
    }

    fn push(&mut self, part: &Expr) {
        let range = match part {
            Expr::Variable(v, true) => Some((*v, 1, 1)),
            Expr::Not(inner) => match &**inner {
                Expr::Variable(v, true) => Some((*v, 0, 0)),
                _ => None,
            },
            Expr::Compare(compare, Kind::Int, a, b) => match (&**a, &**b, compare) {
                (Expr::Variable(v, _), Expr::Int(k), Compare::Equal)
                | (Expr::Int(k), Expr::Variable(v, _), Compare::Equal) => Some((*v, *k, *k)),
                (Expr::Variable(v, _), Expr::Int(k), Compare::Less) => {
                    Some((*v, i64::MIN, k.saturating_sub(1)))
                }
                (Expr::Variable(v, _), Expr::Int(k), Compare::LessOrEqual) => Some((*v, i64::MIN, *k)),
                (Expr::Int(k), Expr::Variable(v, _), Compare::Less) => {
                    Some((*v, k.saturating_add(1), i64::MAX))
                }
                (Expr::Int(k), Expr::Variable(v, _), Compare::LessOrEqual) => Some((*v, *k, i64::MAX)),
                _ => None,
            },
            _ => None,
        };
        match range {
            Some(range) => self.ranges.push(range),
            None => self.rest.push(part.clone()),
        }
    }

    pub(super) fn holds(&self, state: &[i64]) -> Result<bool, Fault> {
        for (variable, low, high) in &self.ranges {
            let value = state[*variable];
            if value < *low || value > *high {
                return Ok(false);
            }
        }
        for part in &self.rest {
            if !part.truth(state)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A number that is mostly constant.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Constant(f64),
    Computed(Expr),
}

impl Number {
    pub(super) fn new(expr: &Expr) -> Number {
        match expr {
            Expr::Int(value) => Number::Constant(*value as f64),
            Expr::Real(value) => Number::Constant(value.get()),
            other => Number::Computed(other.clone()),
        }
    }

    pub(super) fn value(&self, state: &[i64]) -> Result<f64, Fault> {
        match self {
            Number::Constant(value) => Ok(*value),
            Number::Computed(expr) => expr.real_value(state),
        }
    }
}
