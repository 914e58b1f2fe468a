//! The simulator beside others on one and the same queue with retries: logical events a second, as ratios.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell;

/// The version of SimPy; the cached environment is keyed by it.
const SIMPY: &str = "4.1.1";

/// How often faster than each we want to be.
const WANTED: [(&str, f64); 4] = [
    ("simpy-process", 30.0),
    ("simpy-callbacks", 0.0),
    ("nexosim", 4.0),
    ("bare", 1.0 / 3.0),
];

/// Runs everybody in turn, twice, and takes the best of each, so that a busy machine slows all alike.
pub(crate) fn race() -> anyhow::Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = std::path::absolute(target)?;
    let python = simpy(&target)?;
    let example = [
        "build",
        "--profile",
        "dist",
        "-p",
        "retryguard-sim",
        "--example",
        "speed",
    ];
    shell::step("ours", "cargo", &example)?;
    let folder = target.join("bench-nexosim");
    let folder = folder.to_string_lossy().into_owned();
    let manifest = "xtask/bench-sim/nexosim/Cargo.toml";
    shell::step(
        "nexosim",
        "cargo",
        &[
            "build",
            "--release",
            "--manifest-path",
            manifest,
            "--target-dir",
            &folder,
        ],
    )?;
    let ours = target.join("dist/examples/speed");
    let nexosim = Path::new(&folder).join("release/bench-nexosim");
    let mut speeds: Vec<(String, f64)> = Vec::new();
    for _ in 0..2 {
        for (program, arguments) in [
            (&python, &["xtask/bench-sim/queue_simpy.py"][..]),
            (&nexosim, &[]),
            (&ours, &[]),
        ] {
            note(&mut speeds, &run(program, arguments)?);
        }
    }
    let speed = |name: &str| {
        let found = speeds
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, speed)| *speed);
        found.with_context(|| format!("{name} printed no speed"))
    };
    println!(
        "{:<18} {:>14} {:>12} {:>8}",
        "simulator", "events/s", "ours is", "wanted"
    );
    println!("{:<18} {:>14.0}", "ours", speed("ours")?);
    for (name, wanted) in WANTED {
        let ratio = speed("ours")? / speed(name)?;
        println!(
            "{name:<18} {:>14.0} {:>11.2}× {:>7.2}×",
            speed(name)?,
            ratio,
            wanted
        );
    }
    println!("\n{:<18} {:>14} {:>16}", "clients", "events/s", "bytes a client");
    for clients in ["1000", "10000", "100000", "1000000"] {
        let text = run(&ours, &["3000000", clients])?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, clients, speed, bytes] = words[..] else {
            bail!("the benchmark printed `{text}`");
        };
        println!("{clients:<18} {speed:>14} {bytes:>16}");
    }
    Ok(())
}

/// A Python that has SimPy, installed on first use.
fn simpy(target: &Path) -> anyhow::Result<PathBuf> {
    let folder = target.join(format!("simpy-{SIMPY}"));
    let python = folder.join("bin/python");
    if !folder.join("ready").exists() {
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::step("SimPy", "python3", &["-m", "venv", &folder.to_string_lossy()])?;
        let wanted = format!("simpy=={SIMPY}");
        shell::step(
            "SimPy",
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &wanted],
        )?;
        std::fs::write(folder.join("ready"), "")?;
    }
    Ok(python)
}

fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    eprintln!("== {} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Keeps the best speed of each name.
fn note(speeds: &mut Vec<(String, f64)>, text: &str) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(speed))) = (words.next(), words.next().map(str::parse::<f64>)) else {
            continue;
        };
        match speeds.iter_mut().find(|(known, _)| known == name) {
            Some((_, best)) => *best = best.max(speed),
            None => speeds.push((name.to_owned(), speed)),
        }
    }
}
