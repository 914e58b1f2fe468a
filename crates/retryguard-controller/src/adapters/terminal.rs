//! What the command prints: a running controller's status, and what a replay would have decided.

use std::{fmt::Write as _, time::Duration};

use retryguard_core::Instant;
use serde_json::{Value, json};

use crate::domain::replay::{Outcome, Replay};

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
    let leads = if status["leads"] == true {
        "leads"
    } else {
        "follows"
    };
    text.push_str(&format!("this controller {leads}"));
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
    out
}

/// The same as JSON.
#[must_use]
pub fn replay_json(replay: &Replay, recorded: Duration) -> Value {
    let targets: serde_json::Map<String, Value> = replay
        .outcomes()
        .map(|(name, outcome)| (name.as_str().to_owned(), everything(outcome)))
        .collect();
    json!({"seconds": recorded.as_secs_f64(), "targets": targets})
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
