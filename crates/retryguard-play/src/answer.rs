//! The answer to the page: the policies in the world of the sliders.

use std::num::NonZero;

use retryguard_sim::{
    client_policy::{ClientPolicy, named},
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
    streams::Seed,
};
use serde_json::{Value, json};

use crate::{
    policies::{self, Entry},
    verdict,
    world::{CAPACITY, FAULT, LENGTH, World},
};

/// Simulates what a request asks for: `{"world": {…}, "policies": [{"use": NAME} | {"name": NAME, "text": TEXT}], "seed": N}`.
///
/// A policy with mistakes is answered by them, and the others are simulated all the same.
///
/// # Errors
/// If there is no policy, or the world cannot be read.
pub fn answer(request: &Value) -> Result<Value, String> {
    let world = World::read(&request["world"]);
    let entries = policies::read(&request["policies"]);
    if entries.is_empty() {
        return Err("no policy is given: choose at least one".to_owned());
    }
    let seed = request["seed"].as_u64().unwrap_or(1);
    let text = world.scenario("  - none\n");
    let scenario = Scenario::parse(&text, "playground", &mut |_| Err("no files".to_owned()))
        .map_err(|mistakes| mistakes.to_string())?;
    let mut client_policies: Vec<ClientPolicy> = entries
        .iter()
        .filter_map(|entry| entry.client_policy.clone().ok())
        .collect();
    // What retries bring is measured against none at all.
    client_policies.extend(named("none").map(|none| ClientPolicy {
        name: String::new(),
        ..none
    }));
    let plan = Plan {
        seed: Seed(seed),
        replications: 1,
        threads: std::thread::available_parallelism().map_or(1, NonZero::get),
    };
    let mut summaries = compare(&scenario.world, &client_policies, &[], &plan, &|_| {});
    let none = summaries.pop();
    let mut ran = summaries.iter();
    let columns: Vec<Value> = entries
        .iter()
        .map(|entry| match &entry.client_policy {
            Err(mistakes) => json!({"name": entry.name, "mistakes": mistakes}),
            Ok(_) => ran
                .next()
                .map_or(Value::Null, |summary| column(summary, none.as_ref())),
        })
        .collect();
    let written: String = entries.iter().map(Entry::written).collect();
    Ok(json!({
        "policies": columns,
        "verdict": sentence(&summaries),
        "length": LENGTH,
        "fault": [FAULT.0, FAULT.1],
        "capacity": CAPACITY,
        "scenario": world.scenario(&written),
    }))
}

/// Best, next and worst; and ours where it is none of these, because it is what a reader of this page asks about.
fn sentence(summaries: &[Summary]) -> String {
    const OURS: &str = "retryguard";
    let text = retryguard_report::verdict::sentence(summaries);
    let ours = summaries.iter().find(|summary| summary.name == OURS);
    match ours.filter(|_| !text.contains(&format!("`{OURS}`"))) {
        Some(ours) => {
            let share = 100.0 * ours.mean("successRate");
            format!("{}; `{OURS}` served {share:.0} %.", text.trim_end_matches('.'))
        }
        None => text,
    }
}

fn column(summary: &Summary, none: Option<&Summary>) -> Value {
    let steps = &summary.first.lines.steps;
    let line = |value: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..steps.len()).map(value).collect() };
    let gain = none.and_then(|none| verdict::gain(summary, none));
    json!({
        "name": summary.name,
        "success": summary.mean("successRate"),
        "goodput": summary.mean("goodputPerSecond"),
        "requestsPerCall": summary.mean("attempts") / summary.mean("calls").max(1.0),
        "attempts": summary.mean("attempts"),
        "p50": finite(summary.mean("p50Ms")),
        "p99": finite(summary.mean("p99Ms")),
        "recovery": finite(summary.mean("recoverySeconds")),
        "gain": gain,
        "gainWords": verdict::gain_words(summary, none),
        "lines": {
            "calls": line(&|index| f64::from(steps[index].calls)),
            "good": line(&|index| f64::from(steps[index].successes)),
            "requests": line(&|index| steps[index].attempts.iter().map(|it| f64::from(*it)).sum()),
        },
    })
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
