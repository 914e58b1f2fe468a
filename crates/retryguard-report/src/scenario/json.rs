//! The result as JSON.

use retryguard_sim::{
    comparison::{COLUMNS, ServiceSummary, Summary},
    statistics::Estimate,
};
use serde_json::{Map, Value, json};

use super::{Outcome, differences};

pub(super) fn of(outcome: &Outcome) -> Value {
    let mut all = json!({
        "scenario": outcome.scenario.name,
        "claim": outcome.scenario.claim,
        "focus": outcome.scenario.world.services[outcome.scenario.world.focus].name,
        "seed": outcome.seed,
        "replications": outcome.replications,
        "policies": policies(&outcome.policies),
    });
    let notes: Vec<Value> = outcome
        .scenario
        .policies
        .iter()
        .flat_map(|policy| {
            policy
                .notes
                .iter()
                .map(|note| json!({"policy": policy.name, "note": note}))
        })
        .collect();
    if !notes.is_empty() {
        all["notes"] = Value::Array(notes);
    }
    let against = outcome.against.as_ref();
    if let Some(against) = against {
        all["differences"] = differences::json(&outcome.policies, against);
    }
    if let Some(share) = outcome.until {
        all["untilCi"] = json!(share);
    }
    if let Some(sweep) = outcome
        .scenario
        .sweep
        .as_ref()
        .filter(|_| outcome.until.is_none())
    {
        let step = |(label, summaries): &(String, Vec<Summary>)| {
            let mut step = json!({"value": label, "policies": policies(summaries)});
            if let Some(against) = against {
                step["differences"] = differences::json(summaries, against);
            }
            step
        };
        let steps: Vec<Value> = outcome.sweep.iter().map(step).collect();
        all["sweep"] = json!({"key": sweep.key, "steps": steps});
    }
    all
}

fn policies(summaries: &[Summary]) -> Vec<Value> {
    summaries.iter().map(policy).collect()
}

fn policy(summary: &Summary) -> Value {
    let mut all = Map::new();
    all.insert("name".to_owned(), json!(summary.name));
    all.insert("digest".to_owned(), json!(summary.digest));
    for (column, value) in COLUMNS.iter().zip(&summary.columns) {
        all.insert(column.key.to_owned(), value.map_or(Value::Null, estimate));
    }
    let services: Vec<Value> = summary.services.iter().map(service).collect();
    all.insert("services".to_owned(), json!(services));
    Value::Object(all)
}

fn service(service: &ServiceSummary) -> Value {
    json!({
        "name": service.name,
        "attempts": estimate(service.attempts),
        "amplification": estimate(service.amplification),
        "turnedAway": estimate(service.turned_away),
        "largestSize": estimate(service.largest),
        "lastSize": estimate(service.last),
        "resizes": estimate(service.resizes),
        "bill": estimate(service.bill),
    })
}

/// The mean and the ends of its 95 % confidence interval; the ends are null for a single run.
fn estimate(estimate: Estimate) -> Value {
    let ends = estimate
        .half_width
        .map(|half| [estimate.mean - half, estimate.mean + half]);
    json!({"mean": estimate.mean, "ci95": ends})
}
