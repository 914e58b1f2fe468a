//! `retryguard lab run` and `retryguard lab matrix`, as they are used from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/matrix")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The share that was paid in a run; none where the machine was too busy for it.
fn success(runs: &Value, configuration: &str, fault: &str) -> Option<f64> {
    run(runs, configuration, fault)["figures"]["success"].as_f64()
}

fn run<'r>(runs: &'r Value, configuration: &str, fault: &str) -> &'r Value {
    runs["runs"]
        .as_array()
        .and_then(|all| {
            all.iter()
                .find(|run| run["configuration"] == configuration && run["fault"] == fault)
        })
        .unwrap_or_else(|| panic!("no run of {configuration} under {fault}"))
}

/// Small in time, so that what is looked at is the form of the report and directions that no chance turns round. A machine
/// that is too busy has runs without figures, which must say so.
#[test]
fn a_matrix_of_four_configurations_and_two_faults() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_string_lossy().into_owned();
    let output = lab(&[
        "matrix",
        "--config",
        "A..B,F,G",
        "--fault",
        "none,payment_errors",
        "--time-scale",
        "0.5",
        "--phases",
        "3+12+2",
        "--at-once",
        "2",
        "--no-sweep",
        "--out",
        &out,
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("seed=1 policy=") && said.contains("cores="),
        "{said}"
    );

    let runs: Value = serde_json::from_str(&read(folder.path(), "runs.json")).expect("JSON");
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(8));
    let report = read(folder.path(), "README.md");
    let csv = read(folder.path(), "runs.csv");
    assert_eq!(csv.lines().count(), 9, "{csv}");
    for text in ["### 5.1 payment_errors", "**RQ5.", "| 5.4 |", "simulated"] {
        assert!(report.contains(text), "no {text} in {report}");
    }
    for run in runs["runs"].as_array().into_iter().flatten() {
        let kept = run["figures"].is_object();
        assert_eq!(run["not_kept"].is_null(), kept, "{run}");
        assert_eq!(run["digest"].as_str().map(str::len), Some(32), "{run}");
    }
    if let (Some(none), Some(naive)) = (
        success(&runs, "A", "payment_errors"),
        success(&runs, "B", "payment_errors"),
    ) {
        assert!(
            naive > none,
            "three attempts: {naive}, one: {none}, under errors that come anyway"
        );
    }
    for fault in ["none", "payment_errors"] {
        for configuration in ["F", "G"] {
            let duplicates = &run(&runs, configuration, fault)["figures"]["duplicate_rate"];
            assert!(
                duplicates.is_null() || *duplicates == 0.0,
                "{configuration}: {duplicates}"
            );
        }
    }

    let made = read(&committed(), "README.md");
    let again = "another form than the committed report: run `retryguard lab matrix` as docs/lab.md says, and commit it";
    assert_eq!(first_line(&report), first_line(&made), "{again}");
    assert_eq!(
        first_line(&csv),
        first_line(&read(&committed(), "runs.csv")),
        "{again}"
    );
}

#[test]
fn wrong_flags_are_told_what_to_write() {
    for (arguments, told) in [
        (["run", "--config", "H"], "A, B, C, D, E, F and G"),
        (["run", "--config", "F..B"], "names no configuration"),
        (["run", "--fault", "kill"], "gateway_overload"),
        (["run", "--phases", "20+120"], "20+120+60"),
        (["run", "--time-scale", "0.001"], "0.02"),
        (["matrix", "--at-once", "17"], "16"),
    ] {
        let output = lab(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}

#[test]
fn real_stores_want_their_addresses_or_another_build() {
    let output = lab(&["run", "--stores", "real"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let told = if cfg!(feature = "lab-real") {
        "--postgres"
    } else {
        "--features lab-real"
    };
    assert!(said.contains(told), "{said}");
}
