//! Two opinions on one world: the simulator draws it, the model checker solves its chain. They share no
//! code, so that when they agree, it means something. Seeds are fixed: a run that agrees once agrees always.

use std::{fs, path::Path};

use retryguard_model::{Constants, Model, Options, Outcome, Properties, check};
use retryguard_sim::comparison::Summary;

use super::{replicated, scenario};

/// The long-run reward of a chain, in units a second.
fn solved(model: &str, reward: &str) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("models/markov/{model}.prism"));
    let text = fs::read_to_string(path).expect("a model");
    let model = Model::parse(&text).expect("a model without mistakes");
    let asked = Properties::parse(&format!("R{{\"{reward}\"}}=? [ S ]")).expect("a property");
    let answers = check(&model, &asked, &Constants::new(), &Options::default()).expect("an answer");
    match answers[0].outcome {
        Outcome::Number(value) => value,
        ref other => panic!("{other:?}"),
    }
}

/// The measured seconds of a scenario.
fn simulated(name: &str) -> Summary {
    let mut scenario = scenario(&format!("markov-{name}"));
    scenario.replications = 30;
    replicated(&scenario).remove(0)
}

#[track_caller]
fn agree(simulated: &Summary, column: &str, solved: f64) {
    let estimate = simulated.get(column).expect("an estimate");
    let (low, high) = (estimate.low(), estimate.high());
    assert!(
        low < high && (high - low) / solved < 0.05,
        "the interval says something"
    );
    assert!(
        low <= solved && solved <= high,
        "{solved} is not in {low} to {high}"
    );
}

#[test]
fn a_small_queue_is_as_full_as_its_chain() {
    let (calls, rejected) = (solved("queue", "calls"), solved("queue", "rejected"));
    let policy = simulated("queue");
    agree(&policy, "calls", calls * 3900.0);
    agree(&policy, "rejectionRate", rejected / calls);
}

#[test]
fn retries_at_once_are_as_many_as_in_their_chain() {
    let (calls, attempts) = (solved("retry", "calls"), solved("retry", "attempts"));
    let policy = simulated("retry");
    agree(&policy, "calls", calls * 7900.0);
    agree(&policy, "amplification", attempts / calls);
    agree(&policy, "successRate", solved("retry", "successes") / calls);
}
