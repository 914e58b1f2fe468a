//! What is made of the answers of the states that a filter chooses.

use crate::answer::Outcome;
use crate::elaborate::Value;
use crate::error::Error;
use crate::syntax::ast::FilterKind;
use crate::values::Values;

/// The relative difference up to which two answers are both the least, or both the largest.
const SAME: f64 = 1e-9;

/// The outcome of a filter, and the states that it names with their answers, by number.
pub(crate) type Filtered = (Outcome, Vec<(usize, Value)>);

/// `chosen` are the states that the filter is about, in the order of the values of their variables if it names states; `values` are the
/// answers of all states to the question `text`.
pub(crate) fn outcome(
    kind: FilterKind,
    values: &Values,
    chosen: &[usize],
    text: &str,
) -> Result<Filtered, Error> {
    // PRISM refuses a filter without states, also where a sum or a count would have a value.
    if chosen.is_empty() {
        return Err(empty(text));
    }
    match values {
        Values::Numbers(values) => numbers(kind, values, chosen, text),
        Values::Truths(values) => truths(kind, values, chosen, text),
    }
}

fn numbers(kind: FilterKind, values: &[f64], chosen: &[usize], text: &str) -> Result<Filtered, Error> {
    let of: Vec<f64> = chosen.iter().map(|s| values[*s]).collect();
    let least = of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = of.iter().sum();
    let named = |test: &dyn Fn(f64) -> bool| {
        let chosen = chosen.iter().filter(|s| test(values[**s]));
        let named: Vec<(usize, Value)> = chosen.map(|s| (*s, Value::Real(values[*s]))).collect();
        (Outcome::States(named.len()), named)
    };
    let near =
        |wanted: f64| move |value: f64| value == wanted || (value - wanted).abs() <= SAME * wanted.abs();
    let number = |value: f64| Ok((Outcome::Number(value), Vec::new()));
    match (kind, of.as_slice()) {
        (FilterKind::Sum, _) => number(sum),
        (FilterKind::Print, _) => Ok(named(&|value| value != 0.0)),
        (FilterKind::PrintAll, _) => Ok(named(&|_| true)),
        (FilterKind::State, [_, _, ..]) => Err(several(of.len(), text)),
        (FilterKind::State | FilterKind::First, [first, ..]) => number(*first),
        (FilterKind::State | FilterKind::First, []) => Err(empty(text)),
        (FilterKind::Min, _) => number(least),
        (FilterKind::Max, _) => number(most),
        (FilterKind::Range, _) => Ok((Outcome::Range(least, most), Vec::new())),
        (FilterKind::Average, _) => number(sum / of.len() as f64),
        (FilterKind::ArgMin, _) => Ok(named(&near(least))),
        (FilterKind::ArgMax, _) => Ok(named(&near(most))),
        (FilterKind::ForAll | FilterKind::Exists | FilterKind::Count, _) => {
            unreachable!("a filter about yes and no is refused for numbers")
        }
    }
}

fn truths(kind: FilterKind, values: &[bool], chosen: &[usize], text: &str) -> Result<Filtered, Error> {
    let yes = chosen.iter().filter(|s| values[**s]).count();
    let truth = |value: bool| Ok((Outcome::Truth(value), Vec::new()));
    let named = |all: bool| {
        let chosen = chosen.iter().filter(|s| all || values[**s]);
        let named: Vec<(usize, Value)> = chosen.map(|s| (*s, Value::Bool(values[*s]))).collect();
        Ok((Outcome::States(named.len()), named))
    };
    match (kind, chosen) {
        (FilterKind::Count, _) => Ok((Outcome::Number(yes as f64), Vec::new())),
        (FilterKind::ForAll, _) => truth(yes == chosen.len()),
        (FilterKind::Exists, _) => truth(yes > 0),
        (FilterKind::Print, _) => named(false),
        (FilterKind::PrintAll, _) => named(true),
        (FilterKind::State, [_, _, ..]) => Err(several(chosen.len(), text)),
        (_, [first, ..]) => truth(values[*first]),
        (_, []) => Err(empty(text)),
    }
}

fn empty(text: &str) -> Error {
    Error::Property {
        reason: format!("no state that can be reached is one of the filter's: {text}"),
    }
}

fn several(count: usize, text: &str) -> Error {
    Error::Property {
        reason: format!(
            "{count} states are the filter's, and it asks for one: choose min, max, avg, first or range: {text}"
        ),
    }
}
