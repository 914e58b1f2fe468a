//! Storm, through its Python bindings.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::root;

/// The Python that has stormpy, as `cargo xtask test` sets it.
const PYTHON: &str = "RETRYGUARD_STORM_PYTHON";

/// The interpreter.
///
/// # Panics
/// Where the environment does not name it.
#[must_use]
pub fn python() -> String {
    std::env::var(PYTHON)
        .unwrap_or_else(|_| panic!("{PYTHON} is not set: run `cargo xtask test`, which installs Storm"))
}

/// Gives Storm all jobs in one process, each as a line of JSON, and returns its answers in the same order.
///
/// # Panics
/// Where the interpreter does not start, or does not answer every job.
#[must_use]
pub fn ask(python: &str, jobs: &[Value]) -> Vec<Value> {
    let script = root().join("crates/retryguard-model/tests/storm.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the interpreter starts");
    let mut input = child.stdin.take().expect("a pipe");
    let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
    // Answers come while jobs are still being written: a pipe that nothing reads would stop both sides.
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
