//! `--const A=0.5,B=0:10:40`.

use anyhow::{Context, bail};
use retryguard_model::{Constants, Value};

/// How many combinations of values a sweep may have.
const MAX_INSTANCES: usize = 1_000_000;

/// Every combination of the values given, the last constant changing fastest.
pub(super) fn instances(given: &[String]) -> anyhow::Result<Vec<Constants>> {
    let mut all = vec![Constants::new()];
    for part in given.iter().flat_map(|text| text.split(',')).map(str::trim) {
        if part.is_empty() {
            continue;
        }
        let (name, values) = part
            .split_once('=')
            .with_context(|| format!("--const {part}: expected NAME=VALUE"))?;
        let (name, values) = (name.trim(), values.trim());
        let values = range(values).with_context(|| format!("--const {part}"))?;
        if values.is_empty() {
            bail!("--const {part}: the range is empty: write from:step:to with from below to");
        }
        if all[0].contains_key(name) {
            bail!("--const {name} is given twice");
        }
        if all.len().saturating_mul(values.len()) > MAX_INSTANCES {
            bail!("--const: more than {MAX_INSTANCES} combinations of values");
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

/// One value, `from:to`, or `from:step:to`.
pub(super) fn range(text: &str) -> anyhow::Result<Vec<Value>> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    match parts.as_slice() {
        [one] => Ok(vec![value(one)?]),
        [from, to] => steps(value(from)?, Value::Int(1), value(to)?),
        [from, step, to] => steps(value(from)?, value(step)?, value(to)?),
        _ => bail!("a range is from:to or from:step:to"),
    }
}

fn value(text: &str) -> anyhow::Result<Value> {
    if let Ok(value) = text.parse::<bool>() {
        return Ok(Value::Bool(value));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Value::Int(value));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Real(value)),
        _ => bail!("`{text}` is not a number, true or false"),
    }
}

fn steps(from: Value, step: Value, to: Value) -> anyhow::Result<Vec<Value>> {
    if let (Value::Int(from), Value::Int(step), Value::Int(to)) = (from, step, to) {
        let stride = usize::try_from(step).ok().filter(|s| *s > 0);
        let stride = stride.context("the step of a range must be positive")?;
        return Ok((from..=to)
            .step_by(stride)
            .take(MAX_INSTANCES + 1)
            .map(Value::Int)
            .collect());
    }
    let number = |value| match value {
        Value::Int(value) => Ok(value as f64),
        Value::Real(value) => Ok(value),
        Value::Bool(_) => bail!("a range is made of numbers"),
    };
    let (from, step, to) = (number(from)?, number(step)?, number(to)?);
    if step <= 0.0 {
        bail!("the step of a range must be positive");
    }
    let mut values = Vec::new();
    for count in 0..=MAX_INSTANCES {
        // Ten digits after the point: 0.5 + 3·0.1 is meant to be 0.8, not 0.8000000000000000444.
        let raw = from + count as f64 * step;
        let rounded: f64 = format!("{raw:.10}").parse().context("not a number")?;
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
    fn what_is_no_range_is_said_so() {
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
