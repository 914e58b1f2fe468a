//! The simulator beside others on the same queue with retries: logical events a second, as ratios.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::guarded;
use super::programs::{Speeds, run};
use xtask::shell;

/// The version of SimPy; the cached environment is keyed by it.
const SIMPY: &str = "4.1.1";

/// How often faster than each we want to be.
const WANTED: [(&str, f64); 5] = [
    ("simpy-process", 30.0),
    ("simpy-callbacks", 0.0),
    ("nexosim", 4.0),
    ("nexosim-lto", 0.0),
    ("bare", 1.0 / 3.0),
];

/// How often each program runs: the best of each counts, because neighbours on the machine only ever slow a run down, and not
/// all programs by as much; often, so that each has had the machine to itself.
const ROUNDS: u32 = 48;

/// SimPy takes ten times as long and has room to spare: it runs in every sixth round.
const SIMPY_EVERY: u32 = 6;

/// Clients that wait at the same time; and how much slower the slowest may be.
const CLIENTS: [&str; 4] = ["1000", "10000", "100000", "1000000"];
const SPREAD: f64 = 2.0;

const PAGE: &str = "docs/evidence/simulator-speed.md";

/// Runs each in turn and writes the page.
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
    let ours = target.join("dist/examples/speed");
    let nexosim = build_nexosim(&target.join("bench-nexosim"), &[])?;
    let whole = [
        ("CARGO_PROFILE_RELEASE_LTO", OsStr::new("fat")),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", OsStr::new("1")),
    ];
    let whole = build_nexosim(&target.join("bench-nexosim-lto"), &whole)?;
    let mut speeds = Speeds::default();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        if round % SIMPY_EVERY == 0 {
            speeds.note(&run(&python, &["evidence/simulators/queue_simpy.py"])?, "");
        }
        speeds.note(&run(&nexosim, &[])?, "");
        speeds.note(&run(&whole, &[])?, "-lto");
        speeds.note(&run(&ours, &[])?, "");
    }
    let mut clients = Speeds::default();
    let mut bytes = BTreeMap::new();
    for _ in 0..ROUNDS / 4 {
        for number in CLIENTS {
            let text = run(&ours, &["3000000", number])?;
            let words: Vec<&str> = text.split_whitespace().collect();
            let [_, _, speed, each] = words[..] else {
                bail!("the benchmark printed `{text}`");
            };
            clients.note(&format!("{number} {speed}"), "");
            bytes.insert(number, each.to_owned());
        }
    }
    let mut page = HEAD.to_owned();
    let mut short = Vec::new();
    let (best, median) = speeds.of("ours")?;
    let _ = writeln!(page, "| ours | {best:.0} | {median:.0} | 1 | 1 | |");
    for (name, wanted) in WANTED {
        let (theirs, usual) = speeds.of(name)?;
        let ratio = best / theirs;
        let wish = if wanted > 0.0 {
            format!("{wanted:.2}")
        } else {
            String::new()
        };
        let _ = writeln!(
            page,
            "| {name} | {theirs:.0} | {usual:.0} | {ratio:.2} | {:.2} | {wish} |",
            median / usual
        );
        if ratio < wanted {
            short.push(format!("{ratio:.2} of {wanted:.2} times {name}"));
        }
    }
    page += CLIENTS_HEAD;
    let smallest = clients.of(CLIENTS[0])?.0;
    for number in CLIENTS {
        let speed = clients.of(number)?.0;
        let slower = smallest / speed;
        let _ = writeln!(
            page,
            "| {number} | {speed:.0} | {slower:.2} | {} |",
            bytes[number]
        );
        if slower > SPREAD {
            short.push(format!("{slower:.2} times slower with {number} clients"));
        }
    }
    let programs = guarded::Programs {
        python: &python,
        nexosim: nexosim.with_file_name("guarded"),
        nexosim_lto: whole.with_file_name("guarded"),
        ours: &ours,
    };
    guarded::race(&programs, &mut page, &mut short)?;
    page += &if short.is_empty() {
        "\nEverything is as fast as wanted.\n".to_owned()
    } else {
        format!("\nSlower than wanted: {}.\n", short.join("; "))
    };
    println!("{page}");
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?;
    if !short.is_empty() {
        bail!("slower than wanted: {}", short.join("; "));
    }
    Ok(())
}

fn build_nexosim(folder: &Path, profile: &[(&str, &OsStr)]) -> anyhow::Result<PathBuf> {
    let text = folder.to_string_lossy().into_owned();
    let manifest = "evidence/simulators/nexosim/Cargo.toml";
    let arguments = [
        "build",
        "--release",
        "--manifest-path",
        manifest,
        "--target-dir",
        &text,
    ];
    shell::step_with("nexosim", "cargo", &arguments, profile)?;
    Ok(folder.join("release/bench-nexosim"))
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

const HEAD: &str = "\
# The simulator beside others

Written by `cargo xtask evidence simulator-speed`; not compared by a test, because speed differs between machines.

One queue with retries: \u{3bb} = 1.5, \u{3bc} = 1, at most 50 inside, 4 attempts, exponential backoff under full jitter. Logical
events (arrivals, retries, departures) a second of processor time, on one thread. Ours runs the very machines that the library runs,
from a scenario file, with all that a report needs; the others know nothing but this queue: SimPy with a process for each request and
with bare callbacks, nexosim with one model (built as its users build it, and once more with the whole-program optimisation that our
command is built with: `nexosim-lto`), and a bare loop over a binary heap. All programs run in turn, 48 times (SimPy 8 times). The best
run of each counts, because neighbours on the machine only ever slow a run down, and not all programs by as much; the middle run
stands beside it. The ratio is our speed over theirs.

| simulator | events a second, best | middle | ratio | of the middle | wanted |
| --- | --- | --- | --- | --- | --- |
";

const CLIENTS_HEAD: &str = "
The same queue, called by so many clients who think and wait each by themselves, all at the same time: the best of twelve runs, and
the memory that a client takes (that of the whole world, divided by the clients). The policy keeps nothing from one call to the next, so
that all of them share one target; where it does, each client that calls has a target of its own, of about 590 bytes.

| clients | events a second | slower than the first | bytes a client |
| --- | --- | --- | --- |
";
