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
        let (a, b) = match kind {
            Kind::Int => balanced(a, b),
            _ => (a, b),
        };
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
        self.put(&|variable, boolean| {
            let value = value(variable)?;
            Some(if boolean {
                Expr::Bool(value != 0)
            } else {
                Expr::Int(value)
            })
        })
    }

    /// The expression with another one in place of every variable that `other` has one for; it is asked with whether the variable is a truth value.
    pub(crate) fn put(&self, other: &impl Fn(usize, bool) -> Option<Expr>) -> Expr {
        match self {
            Expr::Int(_) | Expr::Real(_) | Expr::Bool(_) => self.clone(),
            Expr::Variable(variable, boolean) => other(*variable, *boolean).unwrap_or_else(|| self.clone()),
            Expr::Not(a) => Expr::negation(a.put(other)),
            Expr::And(parts) => Expr::and(parts.iter().map(|part| part.put(other)).collect()),
            Expr::Or(parts) => Expr::or(parts.iter().map(|part| part.put(other)).collect()),
            Expr::Compare(compare, kind, a, b) => Expr::compare(*compare, *kind, a.put(other), b.put(other)),
            Expr::Arithmetic(operator, kind, a, b) => {
                Expr::arithmetic(*operator, *kind, a.put(other), b.put(other))
            }
            Expr::Round(rounding, a) => Expr::round(*rounding, a.put(other)),
            Expr::IfThenElse(a, b, c) => Expr::if_then_else(a.put(other), b.put(other), c.put(other)),
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

/// The sides of a comparison of whole numbers; where one is `c - x` and the other a constant, `x` and a constant.
fn balanced(a: Expr, b: Expr) -> (Expr, Expr) {
    let distance = |expr: &Expr| match expr {
        Expr::Arithmetic(Arithmetic::Subtract, Kind::Int, c, x) => match (&**c, &**x) {
            (Expr::Int(c), Expr::Variable(..)) => Some((*c, (**x).clone())),
            _ => None,
        },
        _ => None,
    };
    let sides = match (&a, &b) {
        (_, Expr::Int(k)) => distance(&a).and_then(|(c, x)| Some((Expr::Int(c.checked_sub(*k)?), x))),
        (Expr::Int(k), _) => distance(&b).and_then(|(c, x)| Some((x, Expr::Int(c.checked_sub(*k)?)))),
        _ => None,
    };
    sides.unwrap_or((a, b))
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
