//! `retryguard predict`.

use std::process::{Command, Output};

use serde_json::Value;

fn predict(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("predict")
        .args(arguments.split_whitespace())
        .output()
        .expect("the command starts")
}

#[test]
fn json_on_standard_output_and_nothing_else() {
    let output = predict("--load 1.5 --attempts 5 --json");
    assert!(output.status.success() && output.stderr.is_empty());
    let json: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let delay = json["expectedDelay"].as_f64().expect("a number");
    assert!((delay - 12.8159).abs() < 5e-5, "{delay}");
    assert!(
        json["guardThresholdReason"]
            .as_str()
            .expect("a text")
            .contains("110 % load")
    );
}

#[test]
fn the_text_says_which_model_it_used() {
    let told = |arguments| String::from_utf8(predict(arguments).stdout).expect("text");
    assert!(told("--load 1.5 --attempts 5").starts_with("load 1.5, 5 attempts; overload"));
    assert!(told("--load 0.9 --attempts 3 --buffer 20").contains("M/M/1/20"));
}

#[test]
fn bad_numbers_exit_with_two_and_say_what_to_give() {
    for (arguments, expected) in [
        (
            "--load -1 --attempts 3",
            "the load -1 is not a positive number: give offered calls over capacity",
        ),
        ("--load nan --attempts 3", "is not a positive number"),
        ("--load 1.5 --attempts 0", "give 1 (no retry) to 1000"),
        (
            "--load 0.5 --attempts 3 --buffer 0",
            "give the calls that the target holds at once",
        ),
        ("--load 1.5 --attempts many", "invalid value 'many'"),
        ("--attempts 3", "--load <RHO>"),
    ] {
        let output = predict(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(talk.contains(expected), "{arguments}: {talk}");
    }
}

/// Text and JSON once gave two different numbers the name "expected delay".
#[test]
fn text_and_json_agree_on_the_expected_delay() {
    let arguments = "--load 1.5 --attempts 5";
    let json: Value = serde_json::from_slice(&predict(&format!("{arguments} --json")).stdout).expect("JSON");
    let text = String::from_utf8(predict(arguments).stdout).expect("text");
    let line = text
        .lines()
        .find(|line| line.starts_with("expected delay"))
        .expect("a line");
    let number: f64 = line
        .split_whitespace()
        .nth(2)
        .expect("a number")
        .parse()
        .expect("a number");
    let expected = json["expectedDelay"].as_f64().expect("a number");
    assert!((number - expected).abs() < 1e-3, "{line}: {expected}");
}
