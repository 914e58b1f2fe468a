//! The result as comma-separated values: a line for each policy, and for each value of a sweep.

use std::fmt::Write as _;

use retryguard_sim::comparison::{COLUMNS, Summary};

use super::Outcome;

pub(super) fn of(outcome: &Outcome) -> String {
    let mut out = String::from("scenario,value,policy");
    for column in COLUMNS {
        let _ = write!(out, ",{0},{0}Low,{0}High", column.key);
    }
    out.push('\n');
    if outcome.sweep.is_empty() {
        lines(&mut out, &outcome.scenario.name, "", &outcome.policies);
    }
    for (value, summaries) in &outcome.sweep {
        lines(&mut out, &outcome.scenario.name, value, summaries);
    }
    out
}

fn lines(out: &mut String, scenario: &str, value: &str, summaries: &[Summary]) {
    for summary in summaries {
        let _ = write!(
            out,
            "{},{},{}",
            quoted(scenario),
            quoted(value),
            quoted(&summary.name)
        );
        for estimate in &summary.columns {
            let _ = match estimate {
                None => write!(out, ",,,"),
                Some(it) if it.half_width.is_none() => write!(out, ",{},,", it.mean),
                Some(it) => write!(out, ",{},{},{}", it.mean, it.low(), it.high()),
            };
        }
        out.push('\n');
    }
}

/// A text as a cell.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
