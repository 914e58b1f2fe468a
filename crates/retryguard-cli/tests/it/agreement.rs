//! Two opinions on one world: the simulator draws it, the model checker solves its chain. They share no
//! code, so that when they agree, it means something. Seeds are fixed: a run that agrees once agrees always.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn command(arguments: &[&str]) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .current_dir(root)
        .args(arguments)
        .arg("--json")
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// The long-run reward of a chain, in units a second.
fn solved(model: &str, reward: &str) -> f64 {
    let model = format!("evidence/models/markov/{model}.prism");
    let property = format!("R{{\"{reward}\"}}=? [ S ]");
    let json = command(&["check", &model, "--prop", &property]);
    json["results"][0]["value"].as_f64().expect("a number")
}

/// The measured seconds of a scenario.
fn simulated(scenario: &str) -> Value {
    let scenario = format!("evidence/scenarios/markov-{scenario}.yaml");
    let mut json = command(&["simulate", &scenario, "--replications", "30"]);
    json["policies"][0].take()
}

#[track_caller]
fn agree(simulated: &Value, solved: f64) {
    let end = |index: usize| simulated["ci95"][index].as_f64().expect("an end of the interval");
    assert!(
        end(0) < end(1) && (end(1) - end(0)) / solved < 0.05,
        "the interval says something"
    );
    assert!(
        end(0) <= solved && solved <= end(1),
        "{solved} is not in {} to {}",
        end(0),
        end(1)
    );
}

#[test]
fn a_small_queue_is_as_full_as_its_chain() {
    let (calls, rejected) = (solved("queue", "calls"), solved("queue", "rejected"));
    let policy = simulated("queue");
    agree(&policy["calls"], calls * 3900.0);
    agree(&policy["rejectionRate"], rejected / calls);
}

#[test]
fn retries_at_once_are_as_many_as_in_their_chain() {
    let (calls, attempts) = (solved("retry", "calls"), solved("retry", "attempts"));
    let policy = simulated("retry");
    agree(&policy["calls"], calls * 7900.0);
    agree(&policy["amplification"], attempts / calls);
    agree(&policy["successRate"], solved("retry", "successes") / calls);
}
