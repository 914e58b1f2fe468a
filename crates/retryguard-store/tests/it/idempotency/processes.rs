//! Processes of their own: this very test program, told to run one function.

use std::process::Command;

/// A command that runs the test of that name in another process, which finds `variable` set and does its work.
pub(crate) fn command(test: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(variable, value);
    command
}
