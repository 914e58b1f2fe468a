//! `retryguard lint`.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn lint(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("lint")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn policy(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    folder.join(name).display().to_string()
}

fn from_stdin(text: &str, arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("lint")
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("the command reads");
    drop(input);
    child.wait_with_output().expect("the command ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_recommended_policy_is_clean() {
    let output = lint(&["--json", &policy("default.yaml")]);
    assert_eq!(output.status.code(), Some(0));
    let report = json(&output);
    assert_eq!(report["amplification"], 2);
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    assert_eq!(report["digest"].as_str().map(str::len), Some(32));
}

#[test]
fn three_layers_are_27_and_an_error() {
    let output = lint(&["--json", &policy("three-layers.yaml")]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["amplification"], 27);
    let findings = report["findings"].as_array().expect("a list");
    let error = findings
        .iter()
        .find(|finding| finding["severity"] == "error")
        .expect("an error");
    assert_eq!((&error["code"], &error["line"]), (&"RG001".into(), &13.into()));
    let keys: Vec<&String> = report.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["amplification", "digest", "findings"]);
    let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["code", "cure", "line", "message", "severity"]);
}

#[test]
fn the_flat_policy_of_the_field_has_warnings_and_no_error() {
    let output = lint(&[&policy("microservices.yaml")]);
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    assert!(text.contains("microservices.yaml:17: warning RG001: "), "{text}");
    assert!(text.contains("microservices.yaml:18: note RG018: "), "{text}");
    assert!(text.contains("amplification 6, no errors, 1 warning"), "{text}");
}

#[test]
fn several_files_become_a_list_and_the_worst_decides() {
    let output = lint(&["--json", &policy("default.yaml"), &policy("three-layers.yaml")]);
    assert_eq!(output.status.code(), Some(1));
    let reports = json(&output);
    assert!(
        reports[0]["file"]
            .as_str()
            .expect("a name")
            .ends_with("default.yaml")
    );
    assert_eq!(reports[1]["amplification"], 27);
}

#[test]
fn what_is_no_policy_exits_with_2_and_says_where() {
    let output = from_stdin("defaults:\n  maxRetrys: 1\n  jitter: ful\n", &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(out(&output), "");
    let talk = talk(&output);
    assert!(talk.contains("-:2:3: unknown key `maxRetrys`"), "{talk}");
    assert!(talk.contains("-:3:11: "), "{talk}");
    let missing = lint(&[&policy("missing.yaml")]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn standard_input_is_a_file_too() {
    let output = from_stdin("services: {a: {}}\ngatewayRetries: true\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("-:2: error RG004: "), "{}", out(&output));
}

/// `retryguard lint … | head` must not look like a failure.
#[test]
fn a_broken_pipe_is_success() {
    use std::fmt::Write;
    // More findings than a pipe holds, so that the command meets the closed end while it writes.
    let mut text = String::from("services:\n");
    for index in 0..900 {
        writeln!(text, "  service-{index}: {{jitter: none, budget: off}}").expect("a string");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(["lint", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("the command reads");
    drop(input);
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}
