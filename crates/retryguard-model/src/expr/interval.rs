//! What an expression may come to while one variable is anywhere in a range.

use super::{Arithmetic, Compare, Expr, Rounding};

/// A state in which one variable is only known to lie in a range.
pub(crate) struct Vague<'s> {
    pub(crate) state: &'s [i64],
    pub(crate) variable: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// The least and the most that a number may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Whether a condition may hold, and whether it may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maybe {
    pub(crate) holds: bool,
    pub(crate) fails: bool,
}

impl Maybe {
    pub(crate) fn known(truth: bool) -> Maybe {
        Maybe {
            holds: truth,
            fails: !truth,
        }
    }

    pub(crate) fn not(self) -> Maybe {
        Maybe {
            holds: self.fails,
            fails: self.holds,
        }
    }

    pub(crate) fn and(self, other: Maybe) -> Maybe {
        Maybe {
            holds: self.holds && other.holds,
            fails: self.fails || other.fails,
        }
    }
}

impl Interval {
    fn point(value: f64) -> Option<Interval> {
        (!value.is_nan()).then_some(Interval {
            low: value,
            high: value,
        })
    }

    /// The smallest interval around `values`.
    fn around(values: &[f64]) -> Option<Interval> {
        values.iter().all(|value| !value.is_nan()).then(|| Interval {
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

impl Vague<'_> {
    /// `None` where the expression has no value, or none that this arithmetic can follow.
    pub(crate) fn number(&self, expr: &Expr) -> Option<Interval> {
        if !expr.reads(self.variable) {
            return Interval::point(expr.real_value(self.state).ok()?);
        }
        match expr {
            Expr::Variable(..) => Some(Interval {
                low: self.low as f64,
                high: self.high as f64,
            }),
            Expr::Arithmetic(operator, _, a, b) => combine(*operator, self.number(a)?, self.number(b)?),
            Expr::Round(rounding, a) => {
                let inner = self.number(a)?;
                let round = |value: f64| match rounding {
                    Rounding::Floor => value.floor(),
                    Rounding::Ceil => value.ceil(),
                    Rounding::Nearest => (value + 0.5).floor(),
                };
                Some(Interval {
                    low: round(inner.low),
                    high: round(inner.high),
                })
            }
            Expr::IfThenElse(condition, yes, no) => {
                let condition = self.truth(condition)?;
                match (condition.holds, condition.fails) {
                    (true, false) => self.number(yes),
                    (false, true) => self.number(no),
                    _ => {
                        let (a, b) = (self.number(yes)?, self.number(no)?);
                        Interval::around(&[a.low, a.high, b.low, b.high])
                    }
                }
            }
            _ => None,
        }
    }

    pub(crate) fn truth(&self, expr: &Expr) -> Option<Maybe> {
        if !expr.reads(self.variable) {
            return expr.truth(self.state).ok().map(Maybe::known);
        }
        match expr {
            Expr::Not(a) => Some(self.truth(a)?.not()),
            Expr::And(parts) => parts
                .iter()
                .try_fold(Maybe::known(true), |sum, part| Some(sum.and(self.truth(part)?))),
            Expr::Or(parts) => parts
                .iter()
                .try_fold(Maybe::known(true), |sum, part| {
                    Some(sum.and(self.truth(part)?.not()))
                })
                .map(Maybe::not),
            Expr::Compare(compare, _, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                let apart = a.high < b.low || b.high < a.low;
                let equal = a.low == a.high && a == b;
                Some(match compare {
                    Compare::Equal => Maybe {
                        holds: !apart,
                        fails: !equal,
                    },
                    Compare::NotEqual => Maybe {
                        holds: !equal,
                        fails: !apart,
                    },
                    Compare::Less => Maybe {
                        holds: a.low < b.high,
                        fails: a.high >= b.low,
                    },
                    Compare::LessOrEqual => Maybe {
                        holds: a.low <= b.high,
                        fails: a.high > b.low,
                    },
                })
            }
            Expr::IfThenElse(condition, yes, no) => {
                let condition = self.truth(condition)?;
                let (yes, no) = (self.truth(yes)?, self.truth(no)?);
                Some(Maybe {
                    holds: condition.holds && yes.holds || condition.fails && no.holds,
                    fails: condition.holds && yes.fails || condition.fails && no.fails,
                })
            }
            _ => None,
        }
    }

    /// By how much `expr`, assigned to the variable, may change it. `None` where the text does not show it.
    pub(crate) fn shift(&self, expr: &Expr) -> Option<(i64, i64)> {
        match expr {
            Expr::Variable(variable, false) if *variable == self.variable => Some((0, 0)),
            Expr::Arithmetic(operator, _, a, b) => {
                // The variable may stand on either side of what commutes.
                let swap = !a.reads(self.variable) && *operator != Arithmetic::Subtract;
                let (own, other) = if swap { (b, a) } else { (a, b) };
                if other.reads(self.variable) {
                    return None;
                }
                let (low, high) = self.shift(own)?;
                let other = other.stored(self.state).ok()?;
                match operator {
                    Arithmetic::Add => Some((low.checked_add(other)?, high.checked_add(other)?)),
                    Arithmetic::Subtract => Some((low.checked_sub(other)?, high.checked_sub(other)?)),
                    Arithmetic::Min => Some((low.min(other.checked_sub(self.high)?), high)),
                    Arithmetic::Max => Some((low, high.max(other.checked_sub(self.low)?))),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn combine(operator: Arithmetic, a: Interval, b: Interval) -> Option<Interval> {
    let corners = |f: fn(f64, f64) -> f64| {
        Interval::around(&[
            f(a.low, b.low),
            f(a.low, b.high),
            f(a.high, b.low),
            f(a.high, b.high),
        ])
    };
    match operator {
        Arithmetic::Add => corners(|a, b| a + b),
        Arithmetic::Subtract => corners(|a, b| a - b),
        Arithmetic::Multiply => corners(|a, b| a * b),
        Arithmetic::Min => corners(f64::min),
        Arithmetic::Max => corners(f64::max),
        // Away from zero, and a power of something positive, are monotone in each argument: the ends are at the corners.
        Arithmetic::Divide if b.low > 0.0 || b.high < 0.0 => corners(|a, b| a / b),
        Arithmetic::Pow if a.low > 0.0 => corners(f64::powf),
        Arithmetic::Divide | Arithmetic::Pow | Arithmetic::Mod | Arithmetic::Log => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn arithmetic(operator: Arithmetic, a: Expr, b: Expr) -> Expr {
        Expr::Arithmetic(operator, Kind::Int, Box::new(a), Box::new(b))
    }

    const X: Expr = Expr::Variable(0, false);

    /// Every value of a small range lies within what is said of the range.
    #[test]
    fn no_value_escapes() {
        let y = || Expr::Variable(1, false);
        let sum = arithmetic(Arithmetic::Add, X, y());
        let product = arithmetic(Arithmetic::Multiply, sum.clone(), Expr::Int(-3));
        let least = arithmetic(Arithmetic::Min, product.clone(), Expr::Int(-12));
        let compare = |compare, a: &Expr| {
            Expr::Compare(compare, Kind::Int, Box::new(a.clone()), Box::new(Expr::Int(-9)))
        };
        for (low, high) in [(0, 4), (2, 2), (-3, 7)] {
            let state = [0, 5];
            let vague = Vague {
                state: &state,
                variable: 0,
                low,
                high,
            };
            for expr in [&sum, &product, &least] {
                let found = vague.number(expr).unwrap();
                for x in low..=high {
                    let value = expr.real_value(&[x, 5]).unwrap();
                    assert!(found.low <= value && value <= found.high);
                }
                for how in [
                    Compare::Equal,
                    Compare::NotEqual,
                    Compare::Less,
                    Compare::LessOrEqual,
                ] {
                    let asked = compare(how, expr);
                    let found = vague.truth(&asked).unwrap();
                    for x in low..=high {
                        let truth = asked.truth(&[x, 5]).unwrap();
                        assert!(if truth { found.holds } else { found.fails });
                    }
                }
            }
        }
    }

    #[test]
    fn a_capped_step_is_seen() {
        let vague = Vague {
            state: &[0],
            variable: 0,
            low: 3,
            high: 10,
        };
        let up = arithmetic(Arithmetic::Add, X, Expr::Int(1));
        assert_eq!(vague.shift(&up), Some((1, 1)));
        let capped = arithmetic(Arithmetic::Min, up, Expr::Int(10));
        assert_eq!(vague.shift(&capped), Some((0, 1)));
        assert_eq!(vague.shift(&Expr::Int(0)), None);
    }
}
