//! Answers of the model checker as text, JSON or comma-separated values.

use std::fmt::Write as _;

use retryguard_model::{Constants, Model, Options, Outcome, Properties, Refused, Value};
use serde_json::{Map, json};

use crate::lower::Row;

/// The answers of a model, and the properties that have none.
///
/// # Errors
/// Where the model cannot be built.
pub fn rows(
    model: &Model,
    properties: &Properties,
    constants: &Constants,
    options: &Options,
) -> Result<(Vec<Row>, Vec<Refused>), retryguard_model::Error> {
    let mut answered = Vec::new();
    let mut refused = Vec::new();
    for answer in retryguard_model::check_each(model, properties, constants, options)? {
        match answer {
            Ok(answer) => answered.push(Row {
                constants: constants.clone(),
                answer,
            }),
            Err(error) => refused.push(error),
        }
    }
    Ok((answered, refused))
}

/// Constants as `A=1,B=2`.
#[must_use]
pub fn constants_text(constants: &Constants) -> String {
    let all: Vec<String> = constants
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    all.join(",")
}

/// A line for each answer.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut notes: &[String] = &[];
    for row in rows {
        let answer = &row.answer;
        if answer.notes.as_slice() != notes {
            notes = &answer.notes;
            for note in notes {
                let _ = writeln!(out, "# {note}");
            }
        }
        let constants = constants_text(&row.constants);
        let gap = if constants.is_empty() { "" } else { "  " };
        let _ = writeln!(
            out,
            "{constants}{gap}{} = {}  ({} states, {} transitions, built in {:.3} s, solved in {:.3} s)",
            answer.name.as_deref().unwrap_or(&answer.property),
            outcome_text(&answer.outcome),
            answer.states,
            answer.transitions,
            answer.build_seconds,
            answer.solve_seconds,
        );
        for (state, value) in &answer.listed {
            let _ = writeln!(out, "  {state} = {value}");
        }
    }
    out
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Number(value) => number_text(*value),
        Outcome::Range(low, high) => format!("{} to {}", number_text(*low), number_text(*high)),
        Outcome::Between(low, high) if high.is_infinite() => format!("at least {}", number_text(*low)),
        Outcome::Between(low, high) => format!("between {} and {}", number_text(*low), number_text(*high)),
        Outcome::Truth(value) => value.to_string(),
        Outcome::States(1) => "1 state".to_owned(),
        Outcome::States(number) => format!("{number} states"),
    }
}

fn number_text(value: f64) -> String {
    if value.is_infinite() {
        "Infinity".to_owned()
    } else {
        value.to_string()
    }
}

/// One JSON object with what the model leaves out, where it was made from something larger.
#[must_use]
pub fn json(rows: &[Row], losses: &[String]) -> String {
    format!("{:#}\n", json_value(rows, losses))
}

pub(crate) fn json_value(rows: &[Row], losses: &[String]) -> serde_json::Value {
    let results: Vec<serde_json::Value> = rows.iter().map(row_json).collect();
    let mut all = json!({ "results": results });
    if !losses.is_empty() {
        all["losses"] = json!(losses);
    }
    all
}

fn row_json(row: &Row) -> serde_json::Value {
    let answer = &row.answer;
    let consts: Map<String, serde_json::Value> = row
        .constants
        .iter()
        .map(|(name, value)| (name.clone(), value_json(*value)))
        .collect();
    let mut result = json!({
        "consts": consts,
        "property": answer.property,
        "value": outcome_json(&answer.outcome),
        "states": answer.states,
        "transitions": answer.transitions,
        "buildSeconds": answer.build_seconds,
        "solveSeconds": answer.solve_seconds,
    });
    if let Some(name) = &answer.name {
        result["name"] = json!(name);
    }
    if !answer.notes.is_empty() {
        result["reductions"] = json!(answer.notes);
    }
    if let Outcome::Between(low, high) | Outcome::Range(low, high) = answer.outcome {
        result["lower"] = number_json(low);
        result["upper"] = number_json(high);
    }
    if matches!(answer.outcome, Outcome::States(_)) {
        let listed = answer.listed.iter();
        result["listed"] = listed
            .map(|(state, value)| json!({"state": state, "value": value_json(*value)}))
            .collect();
    }
    result
}

fn value_json(value: Value) -> serde_json::Value {
    match value {
        Value::Int(value) => json!(value),
        Value::Real(value) => number_json(value),
        Value::Bool(value) => json!(value),
    }
}

fn outcome_json(outcome: &Outcome) -> serde_json::Value {
    match outcome {
        Outcome::Truth(value) => json!(value),
        Outcome::Range(..) | Outcome::States(_) => serde_json::Value::Null,
        other => other.number().map_or(serde_json::Value::Null, number_json),
    }
}

/// JSON has no infinity; the word is what JavaScript's and Python's own readers understand as a number.
fn number_json(value: f64) -> serde_json::Value {
    if value.is_infinite() {
        json!("Infinity")
    } else {
        json!(value)
    }
}

/// A header and a line for each answer.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let names: Vec<&String> = rows
        .first()
        .map(|row| row.constants.keys().collect())
        .unwrap_or_default();
    let mut out = String::new();
    for name in &names {
        let _ = write!(out, "{name},");
    }
    out.push_str("property,value,states,transitions,build_seconds,solve_seconds\n");
    for row in rows {
        for name in &names {
            let _ = write!(out, "{},", row.constants[*name]);
        }
        let answer = &row.answer;
        let property = answer.name.as_deref().unwrap_or(&answer.property);
        let _ = writeln!(
            out,
            "\"{}\",{},{},{},{},{}",
            property.replace('"', "\"\""),
            outcome_text(&answer.outcome),
            answer.states,
            answer.transitions,
            answer.build_seconds,
            answer.solve_seconds
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters that name states list them; their number is not a value. A range of a filter is not one of the initial states.
    #[test]
    fn states_that_a_filter_names_are_listed() {
        let model = "ctmc\nmodule m\n x : [0..2];\n [] x<2 -> 1 : (x'=x+1);\n [] x=2 -> true;\nendmodule\n";
        let asked = "filter(argmax, x); filter(print, x, x=0); filter(range, x)";
        let (model, asked) = (
            Model::parse(model).expect("a model"),
            Properties::parse(asked).expect("properties"),
        );
        let (rows, refused) = rows(&model, &asked, &Constants::new(), &Options::default()).expect("answers");
        assert!(refused.is_empty(), "{refused:?}");
        let text = text(&rows);
        for expected in [
            "filter(argmax, x) = 1 state  (",
            "  (x=2) = 2\n",
            "filter(print, x, x=0) = 0 states  (",
            "filter(range, x) = 0 to 2  (",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let json = json_value(&rows, &[]);
        let results = &json["results"];
        assert!(
            results[0]["value"].is_null() && results[1]["value"].is_null(),
            "{json}"
        );
        assert_eq!(results[0]["listed"][0]["state"], "(x=2)");
        assert_eq!(results[1]["listed"].as_array().map(Vec::len), Some(0));
        assert_eq!(
            (&results[2]["lower"], &results[2]["upper"]),
            (&0.0.into(), &2.0.into())
        );
    }
}
