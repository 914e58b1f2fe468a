//! That the reductions happen, and what they and truncation are worth.

use std::path::Path;

use retryguard_model::{Answer, Constants, Model, Options, Outcome, Properties, Value, check};

fn answers(model: &str, properties: &str, constants: &Constants, options: &Options) -> Vec<Answer> {
    check(
        &Model::parse(model).unwrap(),
        &Properties::parse(properties).unwrap(),
        constants,
        options,
    )
    .unwrap_or_else(|e| panic!("{}", e.render("model", model, properties)))
}

fn file(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../models")
            .join(name),
    )
    .unwrap()
}

fn number(answer: &Answer) -> f64 {
    match answer.outcome {
        Outcome::Number(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ten_clients_are_counted_rather_than_named() {
    let asked = file("clients/long-run.props");
    // A budget that refills at once is no budget, so the model of named clients and the one that counts them must agree.
    let named = answers(
        &file("clients/ten-clients.prism"),
        &asked,
        &Constants::from([("REFILL".into(), Value::Real(1e6))]),
        &Options::default(),
    );
    assert_eq!(named[0].states, 1716);
    let counted = answers(
        &file("clients/guard.prism"),
        &asked,
        &Constants::from([("GUARDED".into(), Value::Bool(false))]),
        &Options::default(),
    );
    for (a, b) in named.iter().zip(&counted) {
        assert!((number(a) / number(b) - 1.0).abs() < 1e-6, "{a:?} {b:?}");
    }
}

#[test]
fn a_budget_and_a_guard_each_cut_retries() {
    let asked = file("clients/long-run.props");
    let retries = |name: &str, constant: &str, value: Value| {
        let constants = Constants::from([(constant.to_owned(), value)]);
        number(&answers(&file(name), &asked, &constants, &Options::default())[1])
    };
    let free = retries("clients/ten-clients.prism", "REFILL", Value::Real(1e6));
    let budget = retries("clients/ten-clients.prism", "REFILL", Value::Real(0.1));
    let guard = retries("clients/guard.prism", "GUARDED", Value::Bool(true));
    assert!(budget < 0.5 * free, "{budget} {free}");
    assert!(guard < 0.9 * free, "{guard} {free}");
}

#[test]
fn a_counter_to_9999_leaves_a_handful_of_values() {
    let small = file("resiliency-patterns/dynamic-circuit-breaker.prism")
        .replace("const int SHAPE = 100;", "const int SHAPE = 5;");
    let constants = Constants::from([("AV".into(), Value::Real(0.5)), ("MAX_TO".into(), Value::Int(40))]);
    let asked = file("resiliency-patterns/times.props");
    let found = answers(&small, &asked, &constants, &Options::default());
    assert!(
        found[0]
            .notes
            .iter()
            .any(|note| note == "reopens: 10000 values behave as 4"),
        "{:?}",
        found[0].notes
    );
    assert!(found[0].states < 20_000);
    // The counter stays out of reach of its end, so a short one says the same.
    let short = small.replace("MAX_REOPEN = 9999", "MAX_REOPEN = 3");
    let same = answers(&short, &asked, &constants, &Options::default());
    for (a, b) in found.iter().zip(&same) {
        assert!((number(a) / number(b) - 1.0).abs() < 1e-10);
    }
}

/// A walk that drifts home on a line too long to explore.
const WALK: &str = "ctmc\nmodule m\n x : [0..1000000000] init 3;\n [] x>0 & x<1000000000 -> 1 : (x'=x+1);\n \
                    [] x>0 -> 2 : (x'=x-1);\n [] x=0 -> true;\nendmodule\nrewards \"time\" x>0 : 1; endrewards\n";

#[test]
fn what_is_too_large_is_truncated_with_a_bound() {
    let options = Options {
        max_states: 2_000,
        ..Options::default()
    };
    let found = answers(
        WALK,
        "P=? [ F<=5 x=10 ]\nP=? [ F x=0 ]\nR{\"time\"}=? [ C<=4 ]",
        &Constants::new(),
        &options,
    );
    let Outcome::Between(low, high) = found[1].outcome else {
        panic!("{:?}", found[1]);
    };
    // It comes home for certain.
    assert!(
        low > 1.0 - 1e-4 && low <= 1.0 && (high - 1.0).abs() < 1e-9,
        "{low} {high}"
    );
    assert!(found[0].notes[0].starts_with("truncated"), "{:?}", found[0].notes);
    // The same questions on a line that can be explored to its end must lie between.
    let short = WALK.replace("1000000000", "400");
    let exact = answers(
        &short,
        "P=? [ F<=5 x=10 ]\nP=? [ F x=0 ]\nR{\"time\"}=? [ C<=4 ]",
        &Constants::new(),
        &Options::default(),
    );
    for (found, exact) in found.iter().zip(&exact) {
        let Outcome::Between(low, high) = found.outcome else {
            panic!("{found:?}");
        };
        let exact = number(exact);
        assert!(
            low <= exact + 1e-9 && exact <= high + 1e-9,
            "{low} {exact} {high}"
        );
        assert!(high - low < 1e-3, "{low} {high}");
    }
}

#[test]
fn a_reward_beyond_the_edge_has_no_bound() {
    let options = Options {
        truncate: Some(1e-6),
        ..Options::default()
    };
    let found = answers(WALK, "R{\"time\"}=? [ F x=0 ]", &Constants::new(), &options);
    // The expected time home from 3 is 3; the explored part shows almost all of it.
    let Outcome::Between(low, high) = found[0].outcome else {
        panic!("{found:?}");
    };
    assert!(low > 2.99 && low <= 3.0, "{low}");
    assert!(high.is_infinite());
    assert_eq!(
        found[0].outcome.number(),
        None,
        "a lower bound alone is no answer"
    );
    let told = found[0].notes.join("\n");
    assert!(
        told.contains("no upper bound") && told.contains("--max-states"),
        "{told}"
    );
}

#[test]
fn stiff_chains_keep_their_digits() {
    // Up with 1e9, out with 1e-9: the expected time is 1e18 plus a little, known in closed form.
    let text = "ctmc\nmodule m\n s : [0..2];\n [] s=0 -> 1e9 : (s'=1);\n [] s=1 -> 1e9 : (s'=0) + 1e-9 : (s'=2);\n [] s=2 -> true;\n\
                endmodule\nrewards \"time\" s<2 : 1; endrewards\n";
    let found = answers(
        text,
        "R{\"time\"}=? [ F s=2 ]",
        &Constants::new(),
        &Options::default(),
    );
    let exact = 1e-9 + (1.0 + 1e9 * 1e-9) / 1e-9;
    assert!((number(&found[0]) / exact - 1.0).abs() < 1e-12, "{found:?}");
}
