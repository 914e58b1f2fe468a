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
    assert_eq!(
        keys,
        [
            "allowed",
            "amplification",
            "digest",
            "file",
            "findings",
            "mistakes"
        ]
    );
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

/// One shape for one file and for many: a script must not lose the file that is broken.
#[test]
fn several_files_are_an_object_on_a_line_each_and_the_worst_decides() {
    let output = lint(&["--json", &policy("default.yaml"), &policy("three-layers.yaml")]);
    assert_eq!(output.status.code(), Some(1));
    let broken = lint(&[
        "--format",
        "json",
        &policy("missing.yaml"),
        &policy("default.yaml"),
    ]);
    assert_eq!(broken.status.code(), Some(2));
    let lines = |output: &Output| -> Vec<Value> {
        let text = out(output);
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let reports = lines(&output);
    let file = reports[0]["file"].as_str().expect("a name");
    assert!(file.ends_with("default.yaml"), "{file}");
    assert_eq!(reports[1]["amplification"], 27);
    let reports = lines(&broken);
    assert_eq!(reports.len(), 2);
    let message = reports[0]["mistakes"][0]["message"].as_str().expect("a text");
    assert!(message.starts_with("cannot be read"), "{message}");
    assert_eq!(reports[1]["mistakes"], Value::Array(Vec::new()));
}

#[test]
fn what_is_no_policy_exits_with_2_and_says_where() {
    let output = from_stdin("defaults:\n  maxRetrys: 1\n  jitter: ful\n", &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report = json(&output);
    assert_eq!(report["amplification"], Value::Null);
    assert_eq!(
        (&report["mistakes"][0]["line"], &report["mistakes"][0]["column"]),
        (&2.into(), &3.into())
    );
    assert_eq!(report["mistakes"].as_array().map(Vec::len), Some(2));
    let talk = talk(&output);
    assert!(talk.contains("-:2:3: unknown key `maxRetrys`"), "{talk}");
    assert!(talk.contains("-:3:11: "), "{talk}");
    let missing = lint(&[&policy("missing.yaml")]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_file_that_is_too_large_is_not_given_a_size_that_it_has_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.yaml");
    std::fs::write(&file, "# a comment\n".repeat(200_000)).expect("a file");
    let output = lint(&[&file.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let talk = talk(&output);
    assert!(talk.contains("more than 1048576 bytes"), "{talk}");
}

#[test]
fn a_scenario_is_called_one() {
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for name in ["table1-aws.yaml", "safe-clients.yaml"] {
        let output = lint(&[&scenarios.join(name).display().to_string()]);
        assert_eq!(output.status.code(), Some(2));
        let talk = talk(&output);
        assert!(talk.contains("this is a scenario and not a policy"), "{talk}");
    }
}

#[test]
fn warnings_can_be_denied_and_a_comment_allows_them() {
    let warned = "defaults:\n  attemptTimeout: 1s\n  guard: off\n";
    let allowed = warned.replace("off", "off # retryguard: allow RG016: one call a day");
    for (text, arguments, code) in [
        (warned, &[][..], 0),
        (warned, &["--deny", "warnings"], 1),
        (&allowed, &["--deny", "warnings"], 0),
        (&allowed, &["--deny", "notes"], 0),
    ] {
        let output = from_stdin(text, arguments);
        assert_eq!(output.status.code(), Some(code), "{text} {arguments:?}");
    }
    let report = json(&from_stdin(&allowed, &["--json"]));
    assert_eq!(report["allowed"][0]["reason"], "one call a day");
    assert_eq!(report["findings"], Value::Array(Vec::new()));
}

/// The fields that code scanning requires of a log.
#[test]
fn sarif_names_rule_level_file_and_line() {
    let output = lint(&[
        "--format",
        "sarif",
        &policy("three-layers.yaml"),
        &policy("missing.yaml"),
    ]);
    assert_eq!(output.status.code(), Some(2));
    let log = json(&output);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    for result in results {
        assert!(
            rules.iter().any(|rule| rule["id"] == result["ruleId"]),
            "{result}"
        );
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].is_string(), "{result}");
        assert!(place["region"]["startLine"].as_u64() >= Some(1), "{result}");
    }
    assert!(results.iter().any(|result| result["ruleId"] == "RG001"
        && result["level"] == "error"
        && result["locations"][0]["physicalLocation"]["region"]["startLine"] == 13));
    assert!(results.iter().any(|result| result["ruleId"] == "policy-file"));
}

#[test]
fn github_gets_annotations() {
    let output = from_stdin(
        "services: {a: {}}\ngatewayRetries: true\n",
        &["--format", "github"],
    );
    let text = out(&output);
    assert!(text.contains("::error file=-,line=2,title=RG004::"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("::")), "{text}");
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
