//! Storm, the independent model checker that ours is compared with.

mod agree;
mod page;
mod race;
mod races;

pub(crate) use agree::agree;
pub(crate) use race::race;

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use xtask::{
    parts::storm::python,
    shell::{self, target},
};

const TIMES: &[&str] = &[
    "R{\"total_time\"}=? [ F served=MAX_REQ ]",
    "R{\"contention_time\"}=? [ F served=MAX_REQ ]",
];

/// The command, optimised.
fn checker() -> anyhow::Result<PathBuf> {
    shell::step(
        "build",
        "cargo",
        &[
            "build",
            "--release",
            "-p",
            "retryguard-cli",
            "--bin",
            "retryguard",
        ],
    )?;
    Ok(std::path::absolute(target().join("release/retryguard"))?)
}

/// The signal that ends a process whose limit of processor time is over.
const OUT_OF_TIME: i32 = 24;

/// Asks Storm one job in a process of its own, so that no job finds the memory of another. `{"late": true}` where the job has a limit of
/// time that was over.
fn ask(python: &Path, job: &Value) -> anyhow::Result<Value> {
    let mut child = Command::new(python)
        .arg("crates/retryguard-model/tests/storm.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start Storm")?;
    child
        .stdin
        .take()
        .context("no pipe")?
        .write_all(format!("{job}\n").as_bytes())?;
    let output = child.wait_with_output()?;
    if output.status.signal() == Some(OUT_OF_TIME) {
        return Ok(json!({"late": true}));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ANSWER "))
        .with_context(|| format!("Storm gave no answer to {job}"))?;
    Ok(serde_json::from_str(line)?)
}
