//! `cargo xtask evidence matrix`, `sweep` and `report`, as they are used from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn evidence(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evidence"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence/lab-matrix")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
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

/// Small in time, so that what is looked at is the form of the report and what no chance turns round. A machine that is too
/// busy has runs without figures, which must say so.
#[test]
fn the_whole_matrix_at_a_small_time_scale() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_string_lossy().into_owned();
    let output = evidence(&[
        "matrix",
        "--fault",
        "none,payment_errors,payment_slow,inventory_lock,retry_storm,gateway_overload",
        "--time-scale",
        "0.2",
        "--phases",
        "2+10+2",
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
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(42));
    assert_eq!(runs["predictions"].as_array().map(Vec::len), Some(42));
    let (report, csv) = (read(folder.path(), "README.md"), read(folder.path(), "runs.csv"));
    assert_eq!(csv.lines().count(), 43, "{csv}");
    for run in runs["runs"].as_array().into_iter().flatten() {
        let kept = run["figures"].is_object();
        assert_eq!(run["not_kept"].is_null(), kept, "{run}");
        assert_eq!(run["digest"].as_str().map(str::len), Some(32), "{run}");
    }
    for fault in ["payment_errors", "payment_slow", "inventory_lock", "retry_storm"] {
        for configuration in ["F", "G"] {
            let duplicates = &run(&runs, configuration, fault)["figures"]["duplicate_rate"];
            assert!(
                duplicates.is_null() || *duplicates == 0.0,
                "{configuration}: {duplicates}"
            );
        }
    }

    // The page is made of its numbers alone: made again, it is the same, and so is what the simulator says when asked again.
    for asked in [&["report", &out][..], &["report", &out, "--predict"]] {
        fs::remove_file(folder.path().join("README.md")).expect("a file");
        let output = evidence(asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(read(folder.path(), "README.md"), report);
    }
    let wrong = evidence(&["report", &out, "--sweep", &format!("{out}/runs.csv")]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("runs.csv"), "{said}");

    // The committed report has the same parts: headings, heads of tables, claims and questions.
    let made = read(&committed(), "README.md");
    let again = "another form than the committed report: run `cargo xtask evidence matrix` as docs/lab.md says, and commit it";
    assert_eq!(form(&report), form(&made), "{again}");
    assert_eq!(
        first_line(&csv),
        first_line(&read(&committed(), "runs.csv")),
        "{again}"
    );
}

/// What a report has whatever was measured, but for the sweep.
fn form(report: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut swept = false;
    for line in report.lines() {
        if line.starts_with('#') || line.starts_with("<!--") {
            swept = line.starts_with("### Capacity");
        }
        let whole = ["#", "<!--", "| config |", "| quantity |"];
        let part = if whole.iter().any(|start| line.starts_with(start)) {
            line
        } else if let Some(question) = line.strip_prefix("**RQ") {
            question.split("**").next().unwrap_or_default()
        } else if let Some((claim, _)) = line.strip_prefix("| 5.").and_then(|rest| rest.split_once(" | ")) {
            claim
        } else {
            continue;
        };
        if !swept {
            lines.push(part.to_owned());
        }
    }
    lines
}

#[test]
fn wrong_flags_are_told_what_to_write() {
    for (arguments, told) in [
        (["matrix", "--at-once", "17"], "16"),
        (["matrix", "--postgres", "postgres://a@127.0.0.1/b"], "--redis"),
        (["sweep", "--time-scale", "0.1"], "0.2 or more"),
        (["sweep", "--phases", "10+5+0"], "20+120+60"),
    ] {
        let output = evidence(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}
