//! What the command prints: a running controller's status, and what a replay would have decided.

use std::{fmt::Write as _, time::Duration};

use retryguard_core::Instant;
use serde_json::{Value, json};

use crate::domain::{
    replay::{Outcome, Replay},
    target::TargetName,
};

const HEAD: [&str; 8] = [
    "target",
    "state",
    "share",
    "signal",
    "value",
    "off above",
    "held by",
    "reason",
];

/// A running controller's status as a table.
#[must_use]
pub fn status(status: &Value) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for target in status["targets"].as_array().into_iter().flatten() {
        let text = |key: &str| target[key].as_str().unwrap_or("-").to_owned();
        let number = |key: &str| {
            target[key]
                .as_f64()
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
        };
        let held = target["actuators"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|actuator| {
                let word = |key: &str| actuator[key].as_str().unwrap_or("-").to_owned();
                format!("{}:{}", word("name"), word("holds"))
            });
        let mut state = text("state");
        if target["holding"] == true {
            state.push_str(" (no data)");
        }
        rows.push([
            text("target"),
            state,
            number("share"),
            text("signal"),
            number("value"),
            number("offAbove"),
            held.collect::<Vec<_>>().join(" "),
            text("reason"),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    for note in notes(status) {
        text.push_str(&note);
        text.push('\n');
    }
    let _ = write!(text, "this controller {}", standing(status));
    if let Some(shards) = status["shards"].as_array() {
        let led = shards.iter().filter(|shard| shard["leads"] == true);
        let led: Vec<String> = led.map(|shard| shard["shard"].to_string()).collect();
        let which = if led.is_empty() {
            "none".to_owned()
        } else {
            led.join(", ")
        };
        text.push_str(&format!(" (shards: {which} of {})", shards.len()));
    }
    text.push('\n');
    for would in status["would"].as_array().into_iter().flatten() {
        let word = |key: &str| would[key].as_str().unwrap_or("-").to_owned();
        text.push_str(&format!(
            "dry run: for {} {} would {}\n",
            word("target"),
            word("actuator"),
            word("would")
        ));
    }
    text
}

/// Whether it leads, and if not, why.
fn standing(status: &Value) -> String {
    if status["leads"] == true {
        return "leads".to_owned();
    }
    let word = |key: &str| status[key].as_str().filter(|text| !text.is_empty());
    match (word("leader"), word("leadError")) {
        (Some(leader), _) => format!("follows {leader}"),
        (None, Some(error)) => format!("does not lead: {error}"),
        (None, None) => "does not lead".to_owned(),
    }
}

/// What does not fit into the table: measured gains, what a data plane cannot express, and errors.
fn notes(status: &Value) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut notes = Vec::new();
    for target in items(&status["targets"]) {
        let name = word(&target["target"]);
        if let (Some(gain), Some(error)) =
            (target["gain"]["value"].as_f64(), target["gain"]["error"].as_f64())
        {
            notes.push(format!(
                "{name}: each retry adds {gain:.2} ± {error:.2} successful calls"
            ));
        }
        for actuator in items(&target["actuators"]) {
            let said = items(&actuator["losses"])
                .into_iter()
                .chain([actuator["error"].clone()]);
            let said = said.filter(Value::is_string);
            notes.extend(said.map(|text| format!("{name}, {}: {}", word(&actuator["name"]), word(&text))));
        }
    }
    for (kind, list) in [("source", "sources"), ("actuator", "actuators")] {
        for one in items(&status[list])
            .into_iter()
            .filter(|one| one["error"].is_string())
        {
            notes.push(format!("{kind} {}: {}", word(&one["name"]), word(&one["error"])));
        }
    }
    notes
}

/// A replay as a table, with every decision below its target.
#[must_use]
pub fn replay(replay: &Replay, recorded: Duration) -> String {
    let mut out = format!("{:.0} s recorded\n", recorded.as_secs_f64());
    let _ = writeln!(
        out,
        "{:<32} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}",
        "target", "calls", "retries", "held back", "of these ok", "restricted", "changes"
    );
    for (name, outcome) in replay.outcomes() {
        let _ = writeln!(
            out,
            "{:<32} {:>10} {:>10} {:>10.0} {:>12} {:>10.0} s {:>8}",
            name.as_str(),
            outcome.calls,
            outcome
                .retries
                .map_or_else(|| "–".to_owned(), |retries| retries.to_string()),
            outcome.held_back,
            outcome
                .held_back_succeeded
                .map_or_else(|| "not known".to_owned(), |succeeded| format!("{succeeded:.0}")),
            outcome.restricted.as_secs_f64(),
            outcome.decided
        );
        for (at, state, reason) in &outcome.decisions {
            let _ = writeln!(out, "    {:>8.1} s  {}: {reason}", seconds(*at), state.as_str());
        }
    }
    let unknown = replay.unknown();
    if unknown.len() > 0 {
        let names: Vec<&str> = replay
            .unknown()
            .take(MOST_NAMES)
            .map(TargetName::as_str)
            .collect();
        let _ = writeln!(
            out,
            "only in the recording, so not replayed: {}{}; their names must stand under `targets`",
            names.join(", "),
            if unknown.len() > MOST_NAMES { ", …" } else { "" }
        );
    }
    out
}

/// The most targets that are named in one line.
const MOST_NAMES: usize = 5;

/// The same as JSON.
#[must_use]
pub fn replay_json(replay: &Replay, recorded: Duration) -> Value {
    let targets: serde_json::Map<String, Value> = replay
        .outcomes()
        .map(|(name, outcome)| (name.as_str().to_owned(), everything(outcome)))
        .collect();
    let unknown: Vec<&str> = replay.unknown().map(TargetName::as_str).collect();
    json!({"seconds": recorded.as_secs_f64(), "targets": targets, "notReplayed": unknown})
}

fn everything(outcome: &Outcome) -> Value {
    let decisions: Vec<Value> = outcome
        .decisions
        .iter()
        .map(|(at, state, reason)| json!({"at": seconds(*at), "to": state.as_str(), "reason": reason}))
        .collect();
    json!({
        "calls": outcome.calls,
        "retries": outcome.retries,
        "heldBack": outcome.held_back,
        "heldBackSucceeded": outcome.held_back_succeeded,
        "restrictedSeconds": outcome.restricted.as_secs_f64(),
        "refused": outcome.refused,
        "changes": outcome.decided,
        "decisions": decisions,
    })
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table said that a controller follows that had no leader, and nothing of errors, gains and losses.
    #[test]
    fn the_table_says_what_is_wrong() {
        let seen = json!({
            "leads": false, "leader": null, "leadError": "redis does not answer",
            "targets": [{
                "target": "reviews", "state": "suspended", "gain": {"value": 0.021, "error": 0.05},
                "actuators": [{"name": "envoy-rtds", "holds": "suspended", "losses": ["1 of 2 Envoys refused it"], "error": null}],
            }],
            "sources": [{"name": "prometheus", "error": "connection refused"}],
            "actuators": [{"name": "istio", "error": null}],
        });
        let text = status(&seen);
        for line in [
            "reviews: each retry adds 0.02 ± 0.05 successful calls\n",
            "reviews, envoy-rtds: 1 of 2 Envoys refused it\n",
            "source prometheus: connection refused\n",
            "this controller does not lead: redis does not answer\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("istio"), "{text}");
        let follower = status(&json!({"leads": false, "leader": "pod-2"}));
        assert!(
            follower.ends_with("this controller follows pod-2\n"),
            "{follower}"
        );
    }
}
