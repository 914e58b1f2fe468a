//! Whether an expression comes to the same for every value of one variable within a range.
//!
//! The proof follows the arithmetic of [`eval`](super::eval) at the ends of the range: sums, products, quotients, roundings, minima and maxima
//! of doubles are rounded correctly and therefore monotone, and those of whole numbers are exact. Powers and logarithms of doubles are
//! exact only to some digits, so what is known of them is widened by more than that. A proof that fails says nothing.

use super::eval::whole;
use super::integers::{ABOVE, BELOW, add, is_end, multiply, negate, power};
use super::{Arithmetic, Compare, Expr, Kind, Real, Rounding};

/// More than what powers and logarithms of doubles are wrong by.
const INEXACT: f64 = 1e-10;
/// Whole numbers up to here are doubles without rounding.
const EXACT: i64 = 1 << 53;

/// One variable, and the range that it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub(crate) variable: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// All that an expression may come to, without a fault on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    Int(i64, i64),
    /// Never a value that is not a number.
    Real(f64, f64),
    /// Whether it may be false, and whether it may be true.
    Truth(bool, bool),
}

impl Reach {
    fn ints(self) -> Option<(i64, i64)> {
        match self {
            Reach::Int(low, high) => Some((low, high)),
            Reach::Truth(no, yes) => Some((i64::from(!no), i64::from(yes))),
            Reach::Real(..) => None,
        }
    }

    fn reals(self) -> Option<(f64, f64)> {
        let double = |value: i64| match value {
            ABOVE => f64::INFINITY,
            BELOW => f64::NEG_INFINITY,
            _ => value as f64,
        };
        match self {
            Reach::Real(low, high) => Some((low, high)),
            other => other.ints().map(|(low, high)| (double(low), double(high))),
        }
    }

    fn settled(self) -> bool {
        match self {
            Reach::Int(low, high) => low == high && !is_end(low),
            Reach::Real(low, high) => Real::new(low) == Real::new(high),
            Reach::Truth(no, yes) => no != yes,
        }
    }
}

impl Within {
    /// Whether [`Expr::with`] leaves the same for every value of the range.
    pub(crate) fn settles(&self, expr: &Expr) -> bool {
        if self.low == self.high || !expr.reads(self.variable) {
            return true;
        }
        if self.low < -EXACT || self.high > EXACT {
            return false;
        }
        if self.reach(expr).is_some_and(Reach::settled) {
            return true;
        }
        // What reads other variables too leaves the same if each of its parts does.
        match expr {
            Expr::Int(_) | Expr::Real(_) | Expr::Bool(_) | Expr::Variable(..) => false,
            Expr::Not(a) | Expr::Round(_, a) => self.settles(a),
            Expr::And(parts) => {
                parts.iter().any(|part| self.always(part, false))
                    || parts.iter().all(|part| self.settles(part))
            }
            Expr::Or(parts) => {
                parts.iter().any(|part| self.always(part, true))
                    || parts.iter().all(|part| self.settles(part))
            }
            Expr::Compare(_, _, a, b) | Expr::Arithmetic(_, _, a, b) => self.settles(a) && self.settles(b),
            Expr::IfThenElse(condition, yes, no) => {
                let used =
                    |branch: &Expr, truth: bool| self.always(condition, !truth) || self.settles(branch);
                self.settles(condition) && used(yes, true) && used(no, false)
            }
        }
    }

    /// Whether the condition has this truth for every value of the range.
    pub(crate) fn always(&self, condition: &Expr, truth: bool) -> bool {
        match self.reach(condition) {
            Some(Reach::Truth(no, yes)) => no != yes && yes == truth,
            _ => false,
        }
    }

    /// By how much `expr` is above the variable, where it is so by the same number for every value of the range.
    pub(crate) fn shift(&self, expr: &Expr) -> Option<i64> {
        let found = match expr {
            Expr::Variable(variable, false) if *variable == self.variable => 0,
            Expr::Arithmetic(operator, Kind::Int, a, b) => {
                let swap = *operator != Arithmetic::Subtract && self.shift(a).is_none();
                let (own, other) = if swap { (b, a) } else { (a, b) };
                let own = self.shift(own)?;
                let (least, most) = self.reach(other)?.ints()?;
                match operator {
                    Arithmetic::Add if least == most => own.checked_add(least)?,
                    Arithmetic::Subtract if least == most => own.checked_sub(least)?,
                    Arithmetic::Min if self.high.checked_add(own)? <= least => own,
                    Arithmetic::Max if self.low.checked_add(own)? >= most => own,
                    _ => return None,
                }
            }
            Expr::IfThenElse(condition, yes, _) if self.always(condition, true) => self.shift(yes)?,
            Expr::IfThenElse(condition, _, no) if self.always(condition, false) => self.shift(no)?,
            _ => return None,
        };
        (-EXACT..=EXACT).contains(&found).then_some(found)
    }

    /// `None` where the expression reads another variable, may fault, or is beyond this arithmetic.
    fn reach(&self, expr: &Expr) -> Option<Reach> {
        match expr {
            Expr::Int(value) => Some(Reach::Int(*value, *value)),
            Expr::Real(value) => real(value.get(), value.get()),
            Expr::Bool(value) => Some(Reach::Truth(!value, *value)),
            Expr::Variable(variable, boolean) if *variable == self.variable => Some(match boolean {
                true => Reach::Truth(self.low == 0, self.high != 0),
                false => Reach::Int(self.low, self.high),
            }),
            Expr::Variable(..) => None,
            Expr::Not(a) => self.truth(a).map(|(no, yes)| Reach::Truth(yes, no)),
            Expr::And(parts) => self.all(parts, true).map(|(no, yes)| Reach::Truth(no, yes)),
            Expr::Or(parts) => self.all(parts, false).map(|(yes, no)| Reach::Truth(no, yes)),
            Expr::Compare(compare, kind, a, b) => {
                let (a, b) = (self.reach(a)?, self.reach(b)?);
                let (no, yes) = match kind {
                    Kind::Real => compared(*compare, a.reals()?, b.reals()?),
                    _ => {
                        let (a, b) = (a.ints()?, b.ints()?);
                        // Two numbers too large are not compared.
                        if (a.1 == ABOVE && b.1 == ABOVE) || (a.0 == BELOW && b.0 == BELOW) {
                            return None;
                        }
                        compared(*compare, a, b)
                    }
                };
                Some(Reach::Truth(no, yes))
            }
            Expr::Arithmetic(operator, Kind::Int, a, b) => {
                whole_numbers(*operator, self.reach(a)?.ints()?, self.reach(b)?.ints()?)
            }
            Expr::Arithmetic(operator, _, a, b) => {
                doubles(*operator, self.reach(a)?.reals()?, self.reach(b)?.reals()?)
            }
            Expr::Round(rounding, a) => {
                let (low, high) = self.reach(a)?.reals()?;
                let round = |value: f64| match rounding {
                    Rounding::Floor => value.floor(),
                    Rounding::Ceil => value.ceil(),
                    Rounding::Nearest => (value + 0.5).floor(),
                };
                Some(Reach::Int(whole(round(low)).ok()?, whole(round(high)).ok()?))
            }
            Expr::IfThenElse(condition, yes, no) => {
                let in_kind = |reach: Reach| match expr.kind() {
                    Kind::Real => reach.reals().map(|(low, high)| Reach::Real(low, high)),
                    _ => Some(reach),
                };
                match self.truth(condition)? {
                    (false, _) => in_kind(self.reach(yes)?),
                    (_, false) => in_kind(self.reach(no)?),
                    _ => match (in_kind(self.reach(yes)?)?, in_kind(self.reach(no)?)?) {
                        (Reach::Int(a, b), Reach::Int(c, d)) => Some(Reach::Int(a.min(c), b.max(d))),
                        (Reach::Real(a, b), Reach::Real(c, d)) => real(a.min(c), b.max(d)),
                        (Reach::Truth(a, b), Reach::Truth(c, d)) => Some(Reach::Truth(a || c, b || d)),
                        _ => None,
                    },
                }
            }
        }
    }

    fn truth(&self, condition: &Expr) -> Option<(bool, bool)> {
        match self.reach(condition)? {
            Reach::Truth(no, yes) => Some((no, yes)),
            _ => None,
        }
    }

    /// Whether some part may differ from `unit`, and whether all may be it. One part that always differs decides, whatever the others are.
    fn all(&self, parts: &[Expr], unit: bool) -> Option<(bool, bool)> {
        let found: Vec<Option<(bool, bool)>> = parts
            .iter()
            .map(|part| {
                let (no, yes) = self.truth(part)?;
                Some(if unit { (no, yes) } else { (yes, no) })
            })
            .collect();
        if found.iter().any(|part| matches!(part, Some((true, false)))) {
            return Some((true, false));
        }
        found.into_iter().try_fold((false, true), |(differ, all), part| {
            let (differs, is) = part?;
            Some((differ || differs, all && is))
        })
    }
}

/// Whether the comparison may fail, and whether it may hold.
fn compared<T: PartialOrd>(compare: Compare, a: (T, T), b: (T, T)) -> (bool, bool) {
    let apart = a.1 < b.0 || b.1 < a.0;
    let equal = a.0 == a.1 && b.0 == b.1 && a.0 == b.0;
    match compare {
        Compare::Equal => (!equal, !apart),
        Compare::NotEqual => (!apart, !equal),
        Compare::Less => (a.1 >= b.0, a.0 < b.1),
        Compare::LessOrEqual => (a.1 > b.0, a.0 <= b.1),
    }
}

fn real(low: f64, high: f64) -> Option<Reach> {
    (low <= high).then_some(Reach::Real(low, high))
}

/// The least and the largest value at the corners, which are those of all between for what is monotone in each argument.
fn corners<T: Copy + PartialOrd>(a: (T, T), b: (T, T), value: impl Fn(T, T) -> Option<T>) -> Option<(T, T)> {
    let all = [
        value(a.0, b.0)?,
        value(a.0, b.1)?,
        value(a.1, b.0)?,
        value(a.1, b.1)?,
    ];
    let least = |x: T, y: T| if y < x { y } else { x };
    let most = |x: T, y: T| if y > x { y } else { x };
    Some((
        all.iter().copied().fold(all[0], least),
        all.iter().copied().fold(all[0], most),
    ))
}

fn whole_numbers(operator: Arithmetic, a: (i64, i64), b: (i64, i64)) -> Option<Reach> {
    let found = match operator {
        Arithmetic::Add => corners(a, b, add),
        Arithmetic::Subtract => corners(a, b, |x, y| add(x, negate(y))),
        Arithmetic::Multiply => corners(a, b, |x, y| Some(multiply(x, y))),
        Arithmetic::Min => corners(a, b, |x, y| Some(x.min(y))),
        Arithmetic::Max => corners(a, b, |x, y| Some(x.max(y))),
        Arithmetic::Pow if a.0 >= 1 && b.0 >= 0 => corners(a, b, power),
        // Within one period the rest grows with the number.
        Arithmetic::Mod
            if b.0 == b.1
                && b.0 > 0
                && ![a.0, a.1, b.0].into_iter().any(is_end)
                && a.0.div_euclid(b.0) == a.1.div_euclid(b.0) =>
        {
            Some((a.0.rem_euclid(b.0), a.1.rem_euclid(b.0)))
        }
        _ => None,
    };
    found.map(|(low, high)| Reach::Int(low, high))
}

fn doubles(operator: Arithmetic, a: (f64, f64), b: (f64, f64)) -> Option<Reach> {
    let exact = |f: fn(f64, f64) -> f64| {
        let (low, high) = corners(a, b, |x, y| Some(f(x, y)).filter(|value| !value.is_nan()))?;
        real(low, high)
    };
    let points = a.0 == a.1 && b.0 == b.1;
    let endless = |x: (f64, f64)| x.0.is_infinite() || x.1.is_infinite();
    let zero = |x: (f64, f64)| x.0 <= 0.0 && x.1 >= 0.0;
    match operator {
        Arithmetic::Add => exact(|x, y| x + y),
        Arithmetic::Subtract => exact(|x, y| x - y),
        // Nothing times everything has no value, be it at a corner or between.
        Arithmetic::Multiply if (endless(a) && zero(b)) || (endless(b) && zero(a)) => None,
        Arithmetic::Multiply => exact(|x, y| x * y),
        Arithmetic::Divide if b.0 > 0.0 || b.1 < 0.0 => exact(|x, y| x / y),
        Arithmetic::Min => exact(f64::min),
        Arithmetic::Max => exact(f64::max),
        // One pair of arguments has one result, however inexact.
        Arithmetic::Pow if points => exact(f64::powf),
        Arithmetic::Mod if points => exact(f64::rem_euclid),
        Arithmetic::Log if points => exact(|x, y| x.ln() / y.ln()),
        Arithmetic::Pow if a.0 > 0.0 => match exact(f64::powf)? {
            Reach::Real(low, high) => {
                let (low, high) = widened(low, high);
                real(low.max(0.0), high)
            }
            _ => None,
        },
        Arithmetic::Log if a.0 > 0.0 && b.0 > 0.0 => {
            let (a, b) = (widened(a.0.ln(), a.1.ln()), widened(b.0.ln(), b.1.ln()));
            doubles(Arithmetic::Divide, a, b)
        }
        Arithmetic::Divide | Arithmetic::Pow | Arithmetic::Mod | Arithmetic::Log => None,
    }
}

fn widened(low: f64, high: f64) -> (f64, f64) {
    let low = low.min(f64::MAX);
    let high = high.max(f64::MIN);
    let away = |value: f64| INEXACT * value.abs() + f64::MIN_POSITIVE;
    (low - away(low), high + away(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(operator: Arithmetic, a: Expr, b: Expr) -> Expr {
        Expr::arithmetic(operator, Kind::Int, a, b)
    }

    fn double(operator: Arithmetic, a: Expr, b: Expr) -> Expr {
        Expr::arithmetic(operator, Kind::Real, a, b)
    }

    fn less(a: Expr, b: Expr) -> Expr {
        Expr::compare(Compare::Less, Kind::Real, a, b)
    }

    const X: Expr = Expr::Variable(0, false);
    const Y: Expr = Expr::Variable(1, false);

    fn samples() -> Vec<Expr> {
        use Arithmetic::{Add, Divide, Log, Max, Min, Mod, Multiply, Pow, Subtract};
        let n = Expr::Int;
        let r = Expr::real;
        let mut all = vec![
            X,
            int(Min, n(6), int(Multiply, n(3), X)),
            int(Max, X, n(4)),
            int(Mod, X, n(5)),
            int(Min, n(40), int(Multiply, n(5), int(Pow, n(2), X))),
            int(Pow, n(2), X),
            int(Pow, X, n(2)),
            int(Multiply, X, X),
            int(Subtract, n(3), X),
            double(Min, r(40.0), double(Multiply, r(5.0), double(Pow, r(2.0), X))),
            double(
                Divide,
                r(1.0),
                double(Max, double(Divide, r(1.0), r(40.0)), double(Pow, r(0.5), X)),
            ),
            double(Divide, r(1.0), X),
            double(Log, double(Max, X, r(1.0)), r(2.0)),
            Expr::round(Rounding::Floor, double(Divide, X, r(4.0))),
            Expr::round(Rounding::Nearest, double(Multiply, X, r(0.3))),
            Expr::round(Rounding::Ceil, double(Multiply, X, r(-0.3))),
        ];
        let conditions: Vec<Expr> = all.iter().map(|expr| less(expr.clone(), r(4.5))).collect();
        let mixed = all
            .iter()
            .map(|expr| double(Add, expr.clone(), Y))
            .collect::<Vec<_>>();
        let chosen = conditions
            .iter()
            .map(|c| Expr::if_then_else(c.clone(), int(Add, X, n(1)), n(5)))
            .collect::<Vec<_>>();
        let both = conditions
            .windows(2)
            .map(|pair| Expr::and(vec![Expr::negation(pair[0].clone()), pair[1].clone()]))
            .collect::<Vec<_>>();
        let either = conditions
            .windows(2)
            .map(|pair| Expr::or(vec![pair[0].clone(), less(Y, pair[1].clone())]))
            .collect::<Vec<_>>();
        for more in [conditions, mixed, chosen, both, either] {
            all.extend(more);
        }
        all
    }

    /// What is proven of a range holds for each of its values.
    #[test]
    fn what_is_settled_leaves_one_residue() {
        let mut proven = 0;
        for expr in samples() {
            let at = |x: i64| expr.with(&|v| (v == 0).then_some(x));
            for low in -3..14 {
                for high in low..16 {
                    let range = Within {
                        variable: 0,
                        low,
                        high,
                    };
                    if range.settles(&expr) {
                        proven += 1;
                        assert!((low..=high).all(|x| at(x) == at(low)), "{expr:?} {range:?}");
                    }
                    if let Some(shift) = range.shift(&expr) {
                        assert!(
                            (low..=high).all(|x| at(x) == Expr::Int(x + shift)),
                            "{expr:?} {range:?}"
                        );
                    }
                }
            }
        }
        assert!(proven > 3_000, "{proven}");
    }

    /// The forms in which authors write a limit that grows: one proof for all values beyond it.
    #[test]
    fn what_is_capped_is_settled_beyond_its_cap() {
        let range = Within {
            variable: 0,
            low: 6,
            high: 2_000_000,
        };
        for place in [4, 9, 10] {
            assert!(range.settles(&samples()[place]), "{:?}", samples()[place]);
        }
        // Too large to be stored: each value faults in its own words.
        assert!(!range.settles(&samples()[5]));
        let step = int(
            Arithmetic::Min,
            Expr::Int(2_000_001),
            int(Arithmetic::Add, Expr::Int(1), X),
        );
        assert_eq!(range.shift(&step), Some(1));
        assert_eq!(range.shift(&int(Arithmetic::Min, Expr::Int(9), X)), None);
    }
}
