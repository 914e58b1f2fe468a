//! Instruction counts: the same on every run, so that a test may gate on them.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

/// The calls of the shorter of two runs, and how many more the longer one makes: what happens once cancels out in the
/// difference.
const SHORTER: u64 = 3_000;
const MORE: u64 = 30_000;

/// The same for calls that take long: a call over HTTP/2 would keep callgrind busy for many minutes.
const FEW: u64 = 500;
const LONG: u64 = 20_000;

/// The instructions of one call of a subject: `speed` runs under valgrind, for two numbers of calls.
pub fn instructions_per_call(speed: &Path, subject: &str) -> anyhow::Result<u64> {
    let rough = difference(speed, subject, FEW, FEW)?;
    if rough > LONG {
        return Ok(rough);
    }
    difference(speed, subject, SHORTER, MORE)
}

fn difference(speed: &Path, subject: &str, shorter: u64, more: u64) -> anyhow::Result<u64> {
    let less = instructions(speed, subject, shorter)?;
    let longer = instructions(speed, subject, shorter + more)?;
    Ok(longer.saturating_sub(less) / more)
}

fn instructions(speed: &Path, subject: &str, calls: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Not the start: one peer and the recorder of metrics calibrate a clock there, for a time that varies.
        .arg("--toggle-collect=speed::measured*")
        .arg(speed)
        .args(["run", subject, &calls.to_string()])
        .output()
        .context("cannot start `valgrind`: install it from the distribution")?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("callgrind of `{subject}` failed: {told}");
    }
    collected(&told).with_context(|| format!("callgrind of `{subject}` told no count: {told}"))
}

/// The number in the line `==1== Collected : 12345`.
fn collected(told: &str) -> Option<u64> {
    told.lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_callgrinds_last_lines() {
        let told = "==7== Events    : Ir\n==7== Collected : 12345\n==7==\n";
        assert_eq!(collected(told), Some(12_345));
        assert_eq!(collected("==7== nothing"), None);
    }
}
