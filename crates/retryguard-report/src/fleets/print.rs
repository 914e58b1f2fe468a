//! The result on standard output.

use std::fmt::Write as _;

use retryguard_sim::{fleet::Claim, statistics::Estimate};
use serde_json::{Map, Value, json};

use super::{COLUMNS, Found, Outcome};
use crate::{
    number::with_confidence,
    table::{WIDTH, within},
};

pub(super) fn table(outcome: &Outcome) -> String {
    let mut rows = vec![header()];
    rows.extend(outcome.results.iter().map(row));
    let mut out = format!(
        "{}: seed {}, {} replication{}; rates are relative to an even fleet that never retries\n",
        outcome.file.name,
        outcome.seed,
        outcome.replications,
        if outcome.replications == 1 { "" } else { "s" },
    );
    if !outcome.file.claim.is_empty() {
        let _ = writeln!(out, "claim: {}", outcome.file.claim);
    }
    out.push('\n');
    out += &within(&rows, WIDTH);
    let broken: Vec<String> = outcome.results.iter().flat_map(missed).collect();
    if !broken.is_empty() {
        let _ = writeln!(out, "\nclaims that do not hold:\n{}", broken.join("\n"));
    }
    let _ = writeln!(out, "\n{}", sentence(outcome));
    out
}

/// Which fleet has the highest peak and which the lowest, and whether every claim holds.
fn sentence(outcome: &Outcome) -> String {
    let peak = |found: &Found| {
        let place = COLUMNS.iter().position(|column| column.key == "peakRate");
        place.map_or(0.0, |place| found.columns[place].mean)
    };
    let by_peak = |a: &&Found, b: &&Found| peak(a).total_cmp(&peak(b));
    let mut out = String::new();
    if let (Some(lowest), Some(highest)) = (
        outcome.results.iter().min_by(by_peak),
        outcome.results.iter().max_by(by_peak),
    ) {
        out = format!(
            "{} peaks at {:.1} times the even rate",
            highest.plan.name,
            peak(highest)
        );
        if highest.plan.name != lowest.plan.name {
            let _ = write!(out, ", {} at {:.1} times", lowest.plan.name, peak(lowest));
        }
    }
    let claims: usize = outcome.results.iter().map(|found| found.claims.len()).sum();
    let held: usize = outcome.results.iter().map(Found::held).sum();
    match claims {
        0 => out + ".",
        _ if held == claims => format!("{out}; all {claims} claims hold."),
        _ => format!("{out}; {} of {claims} claims do not hold.", claims - held),
    }
}

fn header() -> Vec<String> {
    let columns = COLUMNS.iter().map(|column| column.title.to_owned());
    ["fleet", "clients"]
        .map(str::to_owned)
        .into_iter()
        .chain(columns)
        .chain(["claims".to_owned()])
        .collect()
}

fn row(found: &Found) -> Vec<String> {
    let cells = COLUMNS
        .iter()
        .zip(&found.columns)
        .map(|(column, estimate)| with_confidence(Some(*estimate), column.kind));
    [found.plan.name.clone(), found.plan.fleet.clients.to_string()]
        .into_iter()
        .chain(cells)
        .chain([format!("{} of {} hold", found.held(), found.claims.len())])
        .collect()
}

fn missed(found: &Found) -> Vec<String> {
    found
        .claims
        .iter()
        .filter(|(claim, value)| !Found::holds(claim, *value))
        .map(|(claim, value)| format!("{}: {}, found {value:.4}", found.plan.name, claimed(claim)))
        .collect()
}

/// Such as `0–150 s: 0 ± 0`.
pub(super) fn claimed(claim: &Claim) -> String {
    format!(
        "{}–{} s: {} ± {}",
        seconds(claim.from),
        seconds(claim.until),
        claim.rate,
        claim.within
    )
}

pub(super) fn seconds(at: retryguard_core::Instant) -> f64 {
    at.since(retryguard_core::Instant::ZERO).as_secs_f64()
}

pub(super) fn json(outcome: &Outcome) -> Value {
    let policies: Vec<Value> = outcome.results.iter().map(policy).collect();
    json!({
        "scenario": outcome.file.name,
        "claim": outcome.file.claim,
        "seed": outcome.seed,
        "replications": outcome.replications,
        "policies": policies,
    })
}

/// A fleet is what its clients' policy makes of it. What a fleet does not know (how long calls take, what they
/// cost) is null.
fn policy(found: &Found) -> Value {
    let mut all = Map::new();
    all.insert("name".to_owned(), json!(found.plan.name));
    all.insert("title".to_owned(), json!(found.plan.title));
    all.insert("claim".to_owned(), json!(found.plan.claim));
    all.insert("clients".to_owned(), json!(found.plan.fleet.clients));
    for (column, estimate) in COLUMNS.iter().zip(&found.columns) {
        all.insert(column.key.to_owned(), number(*estimate));
    }
    for unknown in ["meanMs", "p50Ms", "p95Ms", "p99Ms", "bill"] {
        all.insert(unknown.to_owned(), Value::Null);
    }
    let claims: Vec<Value> = found
        .claims
        .iter()
        .map(|(claim, value)| {
            json!({
                "fromSeconds": seconds(claim.from),
                "untilSeconds": seconds(claim.until),
                "rate": claim.rate,
                "within": claim.within,
                "found": value,
                "holds": Found::holds(claim, *value),
            })
        })
        .collect();
    all.insert("expect".to_owned(), json!(claims));
    Value::Object(all)
}

fn number(estimate: Estimate) -> Value {
    let ends = estimate.half_width.map(|_| [estimate.low(), estimate.high()]);
    json!({"mean": estimate.mean, "ci95": ends})
}

/// The first replication of every fleet, step by step.
pub(super) fn csv(outcome: &Outcome) -> String {
    let mut out = String::from("fleet,seconds,first,retries,failed\n");
    for found in &outcome.results {
        let step = found.first.step().as_secs_f64();
        for (index, bin) in found.first.bins().iter().enumerate() {
            let _ = writeln!(
                out,
                "{},{},{},{},{}",
                found.plan.name,
                index as f64 * step,
                bin.first,
                bin.retries,
                bin.failed
            );
        }
    }
    out
}
