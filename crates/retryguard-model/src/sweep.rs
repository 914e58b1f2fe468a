//! Values of constants as text: `A=0.5,B=0:10:40`.

use crate::{Constants, Value};

/// How many combinations of values a sweep may have.
pub const MAX_INSTANCES: usize = 1_000_000;

/// Why a text does not give values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no equals sign.
    #[error("--const {0}: expected NAME=VALUE")]
    NoValue(String),
    /// One constant's values cannot be read.
    #[error("--const {0}: {1}")]
    Constant(String, Box<Refused>),
    /// The range goes downwards.
    #[error("the range is empty: write from:step:to with from below to")]
    Empty,
    /// One constant twice.
    #[error("--const {0} is given twice")]
    Twice(String),
    /// Too many combinations.
    #[error("--const: more than {MAX_INSTANCES} combinations of values")]
    TooMany,
    /// Neither one value nor a range.
    #[error("a range is from:to or from:step:to")]
    Shape,
    /// Not a value.
    #[error("`{0}` is not a number, true or false")]
    Value(String),
    /// The step is not above zero.
    #[error("the step of a range must be positive")]
    Step,
    /// Truth values have no ranges.
    #[error("a range is made of numbers")]
    Truth,
}

/// Every combination of the values given, such as `A=0.5,B=0:10:40`, the last constant changing fastest.
///
/// # Errors
/// Where a part is not a constant with values, or there are more than [`MAX_INSTANCES`] combinations.
pub fn instances(given: &[String]) -> Result<Vec<Constants>, Refused> {
    let mut all = vec![Constants::new()];
    for part in given.iter().flat_map(|text| text.split(',')).map(str::trim) {
        if part.is_empty() {
            continue;
        }
        let of = |refused| Refused::Constant(part.to_owned(), Box::new(refused));
        let (name, values) = part
            .split_once('=')
            .ok_or_else(|| Refused::NoValue(part.to_owned()))?;
        let (name, values) = (name.trim(), values.trim());
        let values = range(values).map_err(of)?;
        if values.is_empty() {
            return Err(of(Refused::Empty));
        }
        if all[0].contains_key(name) {
            return Err(Refused::Twice(name.to_owned()));
        }
        if all.len().saturating_mul(values.len()) > MAX_INSTANCES {
            return Err(Refused::TooMany);
        }
        all = all
            .iter()
            .flat_map(|before| {
                values.iter().map(|value| {
                    let mut constants = before.clone();
                    constants.insert(name.to_owned(), *value);
                    constants
                })
            })
            .collect();
    }
    Ok(all)
}

/// One value, `from:to`, or `from:step:to`. A range that goes downwards is empty.
///
/// # Errors
/// Where the text is something else.
pub fn range(text: &str) -> Result<Vec<Value>, Refused> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    match parts.as_slice() {
        [one] => Ok(vec![value(one)?]),
        [from, to] => steps(value(from)?, Value::Int(1), value(to)?),
        [from, step, to] => steps(value(from)?, value(step)?, value(to)?),
        _ => Err(Refused::Shape),
    }
}

fn value(text: &str) -> Result<Value, Refused> {
    if let Ok(value) = text.parse::<bool>() {
        return Ok(Value::Bool(value));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Value::Int(value));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Real(value)),
        _ => Err(Refused::Value(text.to_owned())),
    }
}

fn steps(from: Value, step: Value, to: Value) -> Result<Vec<Value>, Refused> {
    if let (Value::Int(from), Value::Int(step), Value::Int(to)) = (from, step, to) {
        let stride = usize::try_from(step).ok().filter(|s| *s > 0);
        let stride = stride.ok_or(Refused::Step)?;
        return Ok((from..=to)
            .step_by(stride)
            .take(MAX_INSTANCES + 1)
            .map(Value::Int)
            .collect());
    }
    let number = |value| match value {
        Value::Int(value) => Ok(value as f64),
        Value::Real(value) => Ok(value),
        Value::Bool(_) => Err(Refused::Truth),
    };
    let (from, step, to) = (number(from)?, number(step)?, number(to)?);
    if step <= 0.0 {
        return Err(Refused::Step);
    }
    let mut values = Vec::new();
    for count in 0..=MAX_INSTANCES {
        // Ten digits after the point: 0.5 + 3·0.1 is meant to be 0.8, not 0.8000000000000000444.
        let raw = from + count as f64 * step;
        let rounded: f64 = format!("{raw:.10}").parse().unwrap_or(raw);
        if rounded > to + step * 1e-6 {
            break;
        }
        values.push(Value::Real(rounded));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hit_their_ends() {
        let numbers = range("0.5:0.1:1.0").unwrap();
        assert_eq!(numbers.len(), 6);
        assert_eq!(numbers[3], Value::Real(0.8));
        assert_eq!(numbers[5], Value::Real(1.0));
        assert_eq!(range("10:10:40").unwrap().len(), 4);
        assert_eq!(
            range("2:4").unwrap(),
            [Value::Int(2), Value::Int(3), Value::Int(4)]
        );
    }

    #[test]
    fn every_combination_comes_once() {
        let all = instances(&["A=1:3,B=0.5".into(), "C=true".into()]).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1]["A"], Value::Int(2));
        assert_eq!(all[2]["C"], Value::Bool(true));
    }

    #[test]
    fn texts_that_give_no_values_are_refused() {
        for wrong in [
            "A",
            "A=x",
            "A=1:0:5",
            "A=1,A=2",
            "A=1:2:3:4",
            "A=1:-1:5",
            "A=true:false",
            "A=3:1",
            "A=1.5:0.5:1",
        ] {
            assert!(instances(&[wrong.into()]).is_err(), "{wrong}");
        }
    }
}
