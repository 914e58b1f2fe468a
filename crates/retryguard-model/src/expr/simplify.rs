//! Constructors that fold constants, and substitution.

use super::{Arithmetic, Compare, Expr, Kind, Real, Rounding};

impl Expr {
    pub(crate) fn and(parts: Vec<Expr>) -> Expr {
        let mut kept: Vec<Expr> = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Expr::Bool(true) => {}
                Expr::Bool(false) => return Expr::Bool(false),
                Expr::And(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Expr::Bool(true),
            1 => kept.remove(0),
            _ => Expr::And(kept),
        }
    }

    pub(crate) fn or(parts: Vec<Expr>) -> Expr {
        let mut kept: Vec<Expr> = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Expr::Bool(false) => {}
                Expr::Bool(true) => return Expr::Bool(true),
                Expr::Or(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Expr::Bool(false),
            1 => kept.remove(0),
            _ => Expr::Or(kept),
        }
    }

    pub(crate) fn negation(a: Expr) -> Expr {
        match a {
            Expr::Bool(value) => Expr::Bool(!value),
            Expr::Not(inner) => *inner,
            other => Expr::Not(Box::new(other)),
        }
    }

    pub(crate) fn compare(compare: Compare, kind: Kind, a: Expr, b: Expr) -> Expr {
        folded(Expr::Compare(compare, kind, Box::new(a), Box::new(b)))
    }

    pub(crate) fn arithmetic(operator: Arithmetic, kind: Kind, a: Expr, b: Expr) -> Expr {
        folded(Expr::Arithmetic(operator, kind, Box::new(a), Box::new(b)))
    }

    pub(crate) fn round(rounding: Rounding, a: Expr) -> Expr {
        folded(Expr::Round(rounding, Box::new(a)))
    }

    pub(crate) fn if_then_else(condition: Expr, yes: Expr, no: Expr) -> Expr {
        let kind = match (yes.kind(), no.kind()) {
            (Kind::Real, _) | (_, Kind::Real) => Kind::Real,
            (kind, _) => kind,
        };
        match condition {
            Expr::Bool(true) => in_kind(yes, kind),
            Expr::Bool(false) => in_kind(no, kind),
            other if yes == no => {
                // The condition may still fault; it is dropped only because its value cannot matter.
                let _ = other;
                yes
            }
            other => Expr::IfThenElse(Box::new(other), Box::new(yes), Box::new(no)),
        }
    }

    /// The expression with `value(v)` in place of every variable `v` that it gives a value for.
    pub(crate) fn with(&self, value: &impl Fn(usize) -> Option<i64>) -> Expr {
        match self {
            Expr::Int(_) | Expr::Real(_) | Expr::Bool(_) => self.clone(),
            Expr::Variable(variable, boolean) => match value(*variable) {
                Some(v) if *boolean => Expr::Bool(v != 0),
                Some(v) => Expr::Int(v),
                None => self.clone(),
            },
            Expr::Not(a) => Expr::negation(a.with(value)),
            Expr::And(parts) => Expr::and(parts.iter().map(|part| part.with(value)).collect()),
            Expr::Or(parts) => Expr::or(parts.iter().map(|part| part.with(value)).collect()),
            Expr::Compare(compare, kind, a, b) => {
                Expr::compare(*compare, *kind, a.with(value), b.with(value))
            }
            Expr::Arithmetic(operator, kind, a, b) => {
                Expr::arithmetic(*operator, *kind, a.with(value), b.with(value))
            }
            Expr::Round(rounding, a) => Expr::round(*rounding, a.with(value)),
            Expr::IfThenElse(a, b, c) => Expr::if_then_else(a.with(value), b.with(value), c.with(value)),
        }
    }

    /// The expression with comparisons decided that the ranges of the variables already decide.
    pub(crate) fn within(&self, range: &impl Fn(usize) -> (i64, i64)) -> Expr {
        match self {
            Expr::Compare(compare, Kind::Int, a, b) => {
                let decided = match (&**a, &**b) {
                    (Expr::Variable(v, _), Expr::Int(k)) => decide(*compare, range(*v), (*k, *k)),
                    (Expr::Int(k), Expr::Variable(v, _)) => decide(*compare, (*k, *k), range(*v)),
                    _ => None,
                };
                decided.map_or_else(|| self.clone(), Expr::Bool)
            }
            Expr::Not(a) => Expr::negation(a.within(range)),
            Expr::And(parts) => Expr::and(parts.iter().map(|part| part.within(range)).collect()),
            Expr::Or(parts) => Expr::or(parts.iter().map(|part| part.within(range)).collect()),
            Expr::IfThenElse(a, b, c) => {
                Expr::if_then_else(a.within(range), b.within(range), c.within(range))
            }
            _ => self.clone(),
        }
    }
}

fn decide(compare: Compare, a: (i64, i64), b: (i64, i64)) -> Option<bool> {
    match compare {
        Compare::Equal if a.1 < b.0 || b.1 < a.0 => Some(false),
        Compare::NotEqual if a.1 < b.0 || b.1 < a.0 => Some(true),
        Compare::Less if a.1 < b.0 => Some(true),
        Compare::Less if a.0 >= b.1 => Some(false),
        Compare::LessOrEqual if a.1 <= b.0 => Some(true),
        Compare::LessOrEqual if a.0 > b.1 => Some(false),
        _ => None,
    }
}

/// The value of an expression that reads no variable. One that faults stays as it is: whether the fault matters is known
/// only where it is evaluated, as in `min(40, pow(2, 9999))`.
fn folded(expr: Expr) -> Expr {
    let closed = match &expr {
        Expr::Compare(_, _, a, b) | Expr::Arithmetic(_, _, a, b) => closed(a) && closed(b),
        Expr::Round(_, a) => closed(a),
        _ => false,
    };
    if !closed {
        return expr;
    }
    match expr.kind() {
        Kind::Int => expr.stored(&[]).map_or(expr, Expr::Int),
        Kind::Real => expr
            .real_value(&[])
            .map_or(expr, |value| Expr::Real(Real::new(value))),
        Kind::Bool => expr.truth(&[]).map_or(expr, Expr::Bool),
    }
}

fn closed(expr: &Expr) -> bool {
    let mut closed = true;
    if !expr.is_constant() {
        expr.variables(&mut |_| closed = false);
    }
    closed
}

fn in_kind(expr: Expr, kind: Kind) -> Expr {
    match (&expr, kind) {
        (Expr::Int(value), Kind::Real) => Expr::real(*value as f64),
        _ => expr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_residue_says_what_is_left() {
        let x = || Expr::Variable(0, false);
        let y = || Expr::Variable(1, false);
        let guard = Expr::and(vec![
            Expr::compare(Compare::Less, Kind::Int, x(), Expr::Int(5)),
            Expr::compare(Compare::Equal, Kind::Int, y(), Expr::Int(1)),
        ]);
        let at = |value| guard.with(&|v| (v == 0).then_some(value));
        assert_eq!(at(3), at(4));
        assert_eq!(at(5), Expr::Bool(false));
    }

    #[test]
    fn a_capped_power_folds_however_large() {
        let power = Expr::arithmetic(Arithmetic::Pow, Kind::Int, Expr::Int(2), Expr::Variable(0, false));
        let scaled = Expr::arithmetic(Arithmetic::Multiply, Kind::Int, Expr::Int(5), power);
        let capped = Expr::arithmetic(Arithmetic::Min, Kind::Int, Expr::Int(40), scaled);
        assert_eq!(capped.with(&|_| Some(9999)), Expr::Int(40));
        assert_eq!(capped.with(&|_| Some(1)), Expr::Int(10));
    }

    #[test]
    fn ranges_decide_comparisons() {
        let x = Expr::Variable(0, false);
        let range = |_| (0, 5);
        let test = |compare, k| Expr::compare(compare, Kind::Int, x.clone(), Expr::Int(k)).within(&range);
        assert_eq!(test(Compare::LessOrEqual, 5), Expr::Bool(true));
        assert_eq!(test(Compare::Less, 0), Expr::Bool(false));
        assert_eq!(test(Compare::Equal, 9), Expr::Bool(false));
        assert!(matches!(test(Compare::Less, 5), Expr::Compare(..)));
    }
}
