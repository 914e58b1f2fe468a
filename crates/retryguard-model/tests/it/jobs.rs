//! Storm as a process: jobs in, answers out.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The Python that has stormpy, as `cargo xtask test` sets it.
const PYTHON: &str = "RETRYGUARD_STORM_PYTHON";

/// The interpreter. Tests that need it are ignored unless `cargo xtask test` runs them.
pub(crate) fn python() -> String {
    std::env::var(PYTHON)
        .unwrap_or_else(|_| panic!("{PYTHON} is not set: run `cargo xtask test`, which installs Storm"))
}

/// Asks Storm all jobs in one process.
pub(crate) fn ask(python: &str, jobs: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storm.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the interpreter starts");
    let mut input = child.stdin.take().expect("a pipe");
    let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("the interpreter ends");
    writer
        .join()
        .expect("the writer ends")
        .expect("all jobs were read");
    let answers: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("ANSWER "))
        .map(|line| serde_json::from_str(line).expect("an answer is JSON"))
        .collect();
    assert_eq!(answers.len(), jobs.len(), "Storm answered every job");
    answers
}
