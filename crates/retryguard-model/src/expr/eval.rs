//! The value of an expression in a state.

use super::integers::{add, is_end, multiply, negate, power};
use super::{Arithmetic, Compare, Expr, Kind, Rounding};

/// Why an expression has no value in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    TooLarge,
    Modulus,
    NegativeExponent,
    NotANumber,
}

impl Fault {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Fault::TooLarge => "a whole number too large for 64 bits",
            Fault::Modulus => "mod by a number that is not positive",
            Fault::NegativeExponent => "pow of whole numbers with a negative exponent (write pow(2.0, …))",
            Fault::NotANumber => "a value that is not a number",
        }
    }
}

impl Expr {
    /// The value of a whole-number expression.
    pub(crate) fn int(&self, state: &[i64]) -> Result<i64, Fault> {
        match self {
            Expr::Int(value) => Ok(*value),
            Expr::Variable(variable, _) => Ok(state[*variable]),
            Expr::Arithmetic(operator, Kind::Int, a, b) => {
                let (a, b) = (a.int(state)?, b.int(state)?);
                match operator {
                    Arithmetic::Add => add(a, b).ok_or(Fault::TooLarge),
                    Arithmetic::Subtract => add(a, negate(b)).ok_or(Fault::TooLarge),
                    Arithmetic::Multiply => Ok(multiply(a, b)),
                    Arithmetic::Min => Ok(a.min(b)),
                    Arithmetic::Max => Ok(a.max(b)),
                    Arithmetic::Pow => power(a, b).ok_or(Fault::NegativeExponent),
                    Arithmetic::Mod if is_end(a) || is_end(b) => Err(Fault::TooLarge),
                    Arithmetic::Mod if b <= 0 => Err(Fault::Modulus),
                    Arithmetic::Mod => Ok(a.rem_euclid(b)),
                    Arithmetic::Divide | Arithmetic::Log => Err(Fault::NotANumber),
                }
            }
            Expr::Round(rounding, a) => {
                let value = a.real_value(state)?;
                whole(match rounding {
                    Rounding::Floor => value.floor(),
                    Rounding::Ceil => value.ceil(),
                    Rounding::Nearest => (value + 0.5).floor(),
                })
            }
            Expr::IfThenElse(condition, yes, no) => {
                if condition.truth(state)? {
                    yes.int(state)
                } else {
                    no.int(state)
                }
            }
            _ => Ok(i64::from(self.truth(state)?)),
        }
    }

    /// The value to store in a variable: a whole number within 64 bits, or a truth value as 0 or 1.
    pub(crate) fn stored(&self, state: &[i64]) -> Result<i64, Fault> {
        let value = self.int(state)?;
        if is_end(value) {
            return Err(Fault::TooLarge);
        }
        Ok(value)
    }

    /// The value of a numeric expression.
    pub(crate) fn real_value(&self, state: &[i64]) -> Result<f64, Fault> {
        match self {
            Expr::Real(value) => Ok(value.get()),
            Expr::Arithmetic(operator, Kind::Real, a, b) => {
                let (a, b) = (a.real_value(state)?, b.real_value(state)?);
                Ok(match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Min => a.min(b),
                    Arithmetic::Max => a.max(b),
                    Arithmetic::Pow => a.powf(b),
                    Arithmetic::Mod => a.rem_euclid(b),
                    Arithmetic::Log => a.ln() / b.ln(),
                })
            }
            Expr::IfThenElse(condition, yes, no) => {
                if condition.truth(state)? {
                    yes.real_value(state)
                } else {
                    no.real_value(state)
                }
            }
            _ => {
                let value = self.int(state)?;
                Ok(if value == super::integers::ABOVE {
                    f64::INFINITY
                } else if value == super::integers::BELOW {
                    f64::NEG_INFINITY
                } else {
                    value as f64
                })
            }
        }
    }

    /// The value of a condition.
    pub(crate) fn truth(&self, state: &[i64]) -> Result<bool, Fault> {
        match self {
            Expr::Bool(value) => Ok(*value),
            Expr::Variable(variable, _) => Ok(state[*variable] != 0),
            Expr::Not(a) => Ok(!a.truth(state)?),
            Expr::And(parts) => {
                for part in parts {
                    if !part.truth(state)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Or(parts) => {
                for part in parts {
                    if part.truth(state)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::Compare(compare, Kind::Real, a, b) => {
                let (a, b) = (a.real_value(state)?, b.real_value(state)?);
                Ok(match compare {
                    Compare::Equal => a == b,
                    Compare::NotEqual => a != b,
                    Compare::Less => a < b,
                    Compare::LessOrEqual => a <= b,
                })
            }
            Expr::Compare(compare, _, a, b) => {
                let (a, b) = (a.int(state)?, b.int(state)?);
                if a == b && is_end(a) {
                    return Err(Fault::TooLarge);
                }
                Ok(match compare {
                    Compare::Equal => a == b,
                    Compare::NotEqual => a != b,
                    Compare::Less => a < b,
                    Compare::LessOrEqual => a <= b,
                })
            }
            Expr::IfThenElse(condition, yes, no) => {
                if condition.truth(state)? {
                    yes.truth(state)
                } else {
                    no.truth(state)
                }
            }
            _ => Err(Fault::NotANumber),
        }
    }
}

/// A double without a fraction as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bounds are checked just above the cast"
)]
pub(super) fn whole(value: f64) -> Result<i64, Fault> {
    const LIMIT: f64 = 9.0e18;
    if value.is_nan() {
        Err(Fault::NotANumber)
    } else if value > LIMIT {
        Ok(super::integers::ABOVE)
    } else if value < -LIMIT {
        Ok(super::integers::BELOW)
    } else {
        Ok(value as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Real;
    use super::*;

    fn int(operator: Arithmetic, a: i64, b: i64) -> Result<i64, Fault> {
        Expr::Arithmetic(
            operator,
            Kind::Int,
            Box::new(Expr::Int(a)),
            Box::new(Expr::Int(b)),
        )
        .int(&[])
    }

    #[test]
    fn mod_is_never_negative() {
        assert_eq!(int(Arithmetic::Mod, -1, 5), Ok(4));
        assert_eq!(int(Arithmetic::Mod, 1, 0), Err(Fault::Modulus));
    }

    #[test]
    fn a_capped_power_keeps_its_cap() {
        let power = Expr::Arithmetic(
            Arithmetic::Pow,
            Kind::Int,
            Box::new(Expr::Int(2)),
            Box::new(Expr::Variable(0, false)),
        );
        let capped = Expr::Arithmetic(
            Arithmetic::Min,
            Kind::Int,
            Box::new(Expr::Int(40)),
            Box::new(power.clone()),
        );
        assert_eq!(capped.stored(&[9999]), Ok(40));
        assert_eq!(power.stored(&[9999]), Err(Fault::TooLarge));
    }

    #[test]
    fn rounding_meets_the_ends() {
        let round = |rounding, value| Expr::Round(rounding, Box::new(Expr::Real(Real::new(value)))).int(&[]);
        assert_eq!(round(Rounding::Floor, -1.5), Ok(-2));
        assert_eq!(round(Rounding::Ceil, -1.5), Ok(-1));
        assert_eq!(round(Rounding::Nearest, 2.5), Ok(3));
        assert_eq!(round(Rounding::Floor, f64::NAN), Err(Fault::NotANumber));
    }
}
