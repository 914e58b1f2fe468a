//! Work in units: each is run by itself, anywhere, and writes a file; all files together give the result of one run.

use std::ops::Range;

use serde_json::{Value, json};

/// The key that says that a file is a unit's result, with the version of its form.
const MARK: &str = "retryguardUnit";
const FORM: u64 = 1;

/// The items of a unit, where so many are divided into so many units.
pub(crate) fn items_of(items: u32, units: u32, unit: u32) -> Range<u32> {
    let place = |unit: u32| u64::from(items) * u64::from(unit) / u64::from(units.max(1));
    let number = |unit| u32::try_from(place(unit)).unwrap_or(items);
    number(unit)..number(unit + 1)
}

/// The name of a unit's file.
pub(crate) fn file(unit: u32, units: u32) -> String {
    format!("unit-{unit:05}-of-{units:05}.json")
}

/// The text of a unit's file. `plan` is the same for all units, and has their number as `units`.
pub(crate) fn text(plan: &Value, unit: u32, scores: &[Value]) -> String {
    let all = json!({MARK: FORM, "plan": plan, "unit": unit, "scores": scores});
    format!("{all}\n")
}

/// All units of a plan.
pub(crate) struct Collected {
    /// The plan.
    pub(crate) plan: Value,
    /// For each unit the name of its file, and its scores.
    pub(crate) units: Vec<(String, Vec<Value>)>,
}

/// Puts units in their order. `files` are their names and texts, in any order.
///
/// # Errors
/// Where a file is not a unit's result, units of different plans are mixed, or one is missing or there twice.
pub(crate) fn collected(files: &[(String, String)]) -> Result<Collected, String> {
    let mut found: Vec<(&str, Part)> = Vec::new();
    for (name, text) in files {
        found.push((name, part(name, text)?));
    }
    let Some((first_name, first)) = found.first() else {
        return Err("there is no unit-*.json in the folder; run `--unit K --out DIR` first".to_owned());
    };
    if let Some((name, other)) = found.iter().find(|(_, part)| part.plan != first.plan) {
        let key = different(&first.plan, &other.plan);
        return Err(format!(
            "{name} and {first_name} belong to different plans: `{key}` is not the same; keep the units of one plan in a folder"
        ));
    }
    let count = first.plan["units"]
        .as_u64()
        .and_then(|it| usize::try_from(it).ok());
    // A plan has few more units than files, or some are missing.
    let count = count
        .filter(|it| *it <= MOST)
        .ok_or_else(|| damaged(first_name))?;
    let plan = first.plan.clone();
    let mut scores: Vec<Option<(String, Vec<Value>)>> = vec![None; count];
    for (name, part) in found {
        let place = scores
            .get_mut(usize::try_from(part.unit).unwrap_or(usize::MAX))
            .ok_or_else(|| format!("{name} is unit {} of a plan with {count}", part.unit))?;
        if let Some((other, _)) = place {
            return Err(format!(
                "{name} and {other} are both unit {}; remove one of them",
                part.unit
            ));
        }
        *place = Some((name.to_owned(), part.scores));
    }
    let missing: Vec<String> = (0..count)
        .filter(|unit| scores[*unit].is_none())
        .map(|unit| unit.to_string())
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "{} of {count} units are missing: {}; run each with `--unit K`, the others are kept",
            missing.len(),
            missing.join(", ")
        ));
    }
    Ok(Collected {
        plan,
        units: scores.into_iter().flatten().collect(),
    })
}

/// Units of the largest plan.
const MOST: usize = 1_000_000;

/// A unit's file.
struct Part {
    plan: Value,
    unit: u64,
    scores: Vec<Value>,
}

fn part(name: &str, text: &str) -> Result<Part, String> {
    let mut all: Value = serde_json::from_str(text)
        .map_err(|error| format!("{name} is not complete JSON ({error}); run its unit again"))?;
    if all[MARK] != FORM {
        return Err(format!(
            "{name} is not the result of a unit; remove it from the folder"
        ));
    }
    let scores = all["scores"].as_array_mut().map(std::mem::take);
    match (all["unit"].as_u64(), scores) {
        (Some(unit), Some(scores)) => Ok(Part {
            plan: all["plan"].take(),
            unit,
            scores,
        }),
        _ => Err(damaged(name)),
    }
}

pub(crate) fn damaged(name: &str) -> String {
    format!("{name} is damaged; run its unit again")
}

/// The first key in which two plans differ.
fn different(one: &Value, other: &Value) -> String {
    let keys = one.as_object().into_iter().flatten();
    keys.filter(|(key, value)| other[key.as_str()] != **value)
        .map(|(key, _)| key.clone())
        .next()
        .unwrap_or_default()
}
