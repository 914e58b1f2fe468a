//! `retryguard controller replay`: what would have been decided on recorded readings.

use std::process::ExitCode;

use retryguard_controller::{config::Config, domain::replay::Outcome, start};
use serde_json::{Value, json};

use super::Replay;

pub(super) fn run(arguments: &Replay) -> ExitCode {
    let config = match Config::load(&arguments.config) {
        Ok(config) => config,
        Err(error) => return super::start::tell(&error),
    };
    let (replay, span) = match start::replay(&config, &arguments.recording) {
        Ok(replay) => replay,
        Err(error) => {
            eprintln!("retryguard controller replay: {error}");
            return ExitCode::from(2);
        }
    };
    let Some((first, last)) = span else {
        eprintln!(
            "retryguard controller replay: {} has no rounds; record with `retryguard controller --record FILE`",
            arguments.recording.display()
        );
        return ExitCode::from(2);
    };
    if arguments.json {
        let targets: serde_json::Map<String, Value> = replay
            .outcomes()
            .map(|(name, outcome)| (name.as_str().to_owned(), everything(outcome)))
            .collect();
        let page = json!({"seconds": last.saturating_sub(first).as_secs_f64(), "targets": targets});
        println!("{page:#}");
        return ExitCode::SUCCESS;
    }
    println!("{:.0} s recorded", last.saturating_sub(first).as_secs_f64());
    println!(
        "{:<32} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}",
        "target", "calls", "retries", "held back", "of these ok", "restricted", "changes"
    );
    for (name, outcome) in replay.outcomes() {
        println!(
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
            println!("    {:>8.1} s  {}: {reason}", seconds(*at), state.as_str());
        }
    }
    ExitCode::SUCCESS
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

fn seconds(at: retryguard_core::Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
