//! What is made of the answers of the states that a filter chooses.

use crate::check::Outcome;
use crate::elaborate::properties::Comparison;
use crate::error::Error;
use crate::syntax::ast::FilterKind;

/// `values` are the answers of the chosen states to the question `text`.
pub(crate) fn outcome(
    kind: FilterKind,
    bound: Option<(Comparison, f64)>,
    values: &[f64],
    text: &str,
) -> Result<Outcome, Error> {
    let problem = |reason: String| Err(Error::Property { reason });
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.iter().sum();
    let holds = |value: &f64| bound.is_some_and(|(comparison, bound)| comparison.holds(*value, bound));
    let yes = values.iter().filter(|value| holds(value)).count();
    Ok(match (kind, values) {
        (FilterKind::Sum, _) => Outcome::Number(sum),
        (FilterKind::Count, _) => Outcome::Number(yes as f64),
        (_, []) => {
            return problem(format!(
                "no state that can be reached is one of the filter's: {text}"
            ));
        }
        (FilterKind::State, [one]) => Outcome::Number(*one),
        (FilterKind::State, _) => {
            return problem(format!(
                "{} states are the filter's, and it asks for one: choose min, max, avg or range: {text}",
                values.len()
            ));
        }
        (FilterKind::Min, _) => Outcome::Number(least),
        (FilterKind::Max, _) => Outcome::Number(most),
        (FilterKind::Range, _) => Outcome::Range(least, most),
        (FilterKind::Average, _) => Outcome::Number(sum / values.len() as f64),
        (FilterKind::ForAll, _) => Outcome::Truth(yes == values.len()),
        (FilterKind::Exists, _) => Outcome::Truth(yes > 0),
    })
}
