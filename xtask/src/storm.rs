//! Storm, the foreign opinion on the model checker: installed from PyPI into a cached environment, asked by tests and by the
//! benchmark.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::shell;

/// The version that the tests were written against; the cache is keyed by it.
const VERSION: &str = "2.0.0";

/// The variable that enables the tests which ask Storm.
pub(crate) const VARIABLE: &str = "RETRYGUARD_STORM_PYTHON";

/// A Python that has stormpy, installed on first use.
pub(crate) fn python() -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(target().join(format!("storm-{VERSION}")))?;
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== Storm: installing stormpy {VERSION} (once, about a minute)");
        let text = folder.to_string_lossy().into_owned();
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::step("Storm", "python3", &["-m", "venv", &text])?;
        let wanted = format!("stormpy=={VERSION}");
        shell::step(
            "Storm",
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &wanted],
        )?;
        std::fs::write(&ready, "")?;
    }
    Ok(python)
}

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

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// One instance of the comparison.
struct Race {
    title: &'static str,
    model: &'static str,
    constants: &'static str,
    properties: &'static [&'static str],
    /// How often faster we want to be.
    wanted: f64,
    /// What Storm needed on the reference machine, where it is not run: seconds and gigabytes.
    reference: Option<(f64, f64)>,
}

const TIMES: &[&str] = &[
    "R{\"total_time\"}=? [ F served=MAX_REQ ]",
    "R{\"contention_time\"}=? [ F served=MAX_REQ ]",
];

const RACES: &[Race] = &[
    Race {
        title: "Simple Proxy",
        model: "models/resiliency-patterns/simple-proxy.prism",
        constants: "AV=0.5,CONN_TO=2",
        properties: TIMES,
        wanted: 100.0,
        reference: None,
    },
    Race {
        title: "Retry",
        model: "models/resiliency-patterns/retry.prism",
        constants: "AV=0.5,MAX_BO=10",
        properties: TIMES,
        wanted: 100.0,
        reference: None,
    },
    Race {
        title: "Static Circuit Breaker",
        model: "models/resiliency-patterns/static-circuit-breaker.prism",
        constants: "AV=0.5,MAX_TO=10",
        properties: TIMES,
        wanted: 300.0,
        reference: Some((900.0, 17.0)),
    },
    Race {
        title: "Dynamic Circuit Breaker",
        model: "models/resiliency-patterns/dynamic-circuit-breaker.prism",
        constants: "AV=0.5,MAX_TO=40",
        properties: TIMES,
        wanted: 0.0,
        reference: Some((f64::INFINITY, f64::INFINITY)),
    },
    Race {
        // An average, not the probability of both queues full: at c=20 that one is 1e-16, and Storm did not settle on it within minutes.
        title: "Tandem queue, nothing to reduce: long run",
        model: "models/tandem-queue.prism",
        constants: "c=100",
        properties: &["R{\"customers\"}=? [ S ]"],
        wanted: 0.5,
        reference: None,
    },
    Race {
        title: "Tandem queue, nothing to reduce: bounded",
        model: "models/tandem-queue.prism",
        constants: "c=100",
        properties: &["P=? [ F<=0.2 sc=c & sm=0 ]"],
        wanted: 0.5,
        reference: None,
    },
    Race {
        title: "Tandem queue, nothing to reduce: rewards",
        model: "models/tandem-queue.prism",
        constants: "c=100",
        properties: &["R{\"customers\"}=? [ F sc=c ]"],
        wanted: 0.5,
        reference: None,
    },
];

/// Runs every race, ours on one thread, and prints the ratios. Storm's large breaker is not run unless `all`: it takes a quarter of
/// an hour and 17 GB.
pub(crate) fn race(all: bool) -> anyhow::Result<()> {
    let python = python()?;
    let command = checker()?;
    println!(
        "| model | we: states | we | we: memory | Storm: states | Storm | Storm: memory | ratio | wanted |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut slow = Vec::new();
    for race in RACES {
        let (states, seconds, memory) = ours(&python, &command, race)?;
        let (their_states, their_seconds, their_memory) = match race.reference {
            Some((seconds, memory)) if !all || seconds.is_infinite() => {
                ("reference".to_owned(), seconds, memory)
            }
            _ => theirs(&python, race)?,
        };
        let ratio = their_seconds / seconds;
        println!(
            "| {} | {states} | {seconds:.4} s | {memory:.2} GB | {their_states} | {their_seconds:.2} s | {their_memory:.2} GB | \
             {ratio:.1} | {} |",
            race.title, race.wanted
        );
        if ratio < race.wanted {
            slow.push(race.title);
        }
    }
    if !slow.is_empty() {
        bail!("slower than wanted: {}", slow.join(", "));
    }
    Ok(())
}

/// Runs a program and says how much memory it took: the peak of children is what Python can read without an unsafe call.
const MEASURE: &str = "import json,resource,subprocess,sys\n\
    out=subprocess.run(sys.argv[1:],stdout=subprocess.PIPE,check=True).stdout\n\
    peak=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n\
    print(json.dumps({'peak':peak,'answer':json.loads(out)}))";

fn ours(python: &Path, command: &Path, race: &Race) -> anyhow::Result<(String, f64, f64)> {
    let mut run = Command::new(python);
    run.arg("-c")
        .arg(MEASURE)
        .arg(command)
        .args(["check", race.model, "--json", "--threads", "1"]);
    run.args(["--const", race.constants]);
    for property in race.properties {
        run.args(["--prop", property]);
    }
    let output = run.output().context("cannot run the checker")?;
    if !output.status.success() {
        bail!("{}: {}", race.title, String::from_utf8_lossy(&output.stderr));
    }
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let results = answer["answer"]["results"].as_array().context("no results")?;
    let first = results.first().context("no results")?;
    // Properties answered together share building and solving; the tandem queue asks one.
    let seconds = ["buildSeconds", "solveSeconds"]
        .iter()
        .filter_map(|key| first[key].as_f64())
        .sum();
    let memory = answer["peak"].as_f64().unwrap_or(0.0) / 1e6;
    Ok((first["states"].to_string(), seconds, memory))
}

fn theirs(python: &Path, race: &Race) -> anyhow::Result<(String, f64, f64)> {
    let answer = ask(
        python,
        &json!({
            "model": race.model,
            "constants": race.constants,
            "properties": race.properties,
            "default": true,
        }),
    )?;
    let seconds = answer["seconds"]
        .as_f64()
        .with_context(|| format!("{}: {answer}", race.title))?;
    let memory = answer["peak"].as_f64().unwrap_or(0.0) / 1e6;
    Ok((answer["states"].to_string(), seconds, memory))
}

/// Asks Storm one job in a process of its own, so that no job finds the memory of another.
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
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ANSWER "))
        .with_context(|| format!("Storm gave no answer to {job}"))?;
    Ok(serde_json::from_str(line)?)
}

/// The models of the suite, and the constant that their instances differ in.
const SUITE: &[(&str, &str, &[u32])] = &[
    (
        "models/resiliency-patterns/simple-proxy.prism",
        "CONN_TO",
        &[2, 10, 20, 40],
    ),
    ("models/resiliency-patterns/retry.prism", "MAX_BO", &[10, 20, 40]),
    (
        "models/resiliency-patterns/static-circuit-breaker.prism",
        "MAX_TO",
        &[10, 20, 40],
    ),
    (
        "models/resiliency-patterns/dynamic-circuit-breaker.prism",
        "MAX_TO",
        &[10, 20, 40],
    ),
];

/// What Storm is given in place of what the breakers say: as written they are too large for it, and neither changes a value. A stopped
/// timer's phase is read by nothing, and after three reopenings every timeout of Table I is reached.
const BUILDABLE: &[(&str, &str)] = &[
    ("const bool TIDY = false;", "const bool TIDY = true;"),
    ("const int MAX_REOPEN = 9999;", "const int MAX_REOPEN = 3;"),
];

const AVAILABILITIES: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// The largest relative difference that counts as agreement.
const TOLERANCE: f64 = 1e-6;

/// Compares every instance of the suite at full size.
pub(crate) fn agree() -> anyhow::Result<()> {
    let python = python()?;
    let command = checker()?;
    let (mut largest, mut instances) = (0.0_f64, 0);
    println!("| model | instance | Storm: states | largest relative difference |");
    println!("| --- | --- | --- | --- |");
    for (model, parameter, values) in SUITE {
        for value in *values {
            for availability in AVAILABILITIES {
                let constants = format!("{parameter}={value},AV={availability}");
                let (states, difference) = difference(&python, &command, model, &constants)?;
                println!("| {model} | {constants} | {states} | {difference:.1e} |");
                largest = largest.max(difference);
                instances += 1;
            }
        }
    }
    println!("\n{instances} instances; the largest relative difference is {largest:.2e}");
    if largest > TOLERANCE {
        bail!("Storm and the checker differ by more than {TOLERANCE:e}");
    }
    Ok(())
}

/// Storm's states, and how far apart the two are on one instance.
fn difference(python: &Path, command: &Path, model: &str, constants: &str) -> anyhow::Result<(Value, f64)> {
    let mut run = Command::new(command);
    run.args(["check", model, "--json", "--const", constants]);
    for property in TIMES {
        run.args(["--prop", property]);
    }
    let output = run.output().context("cannot run the checker")?;
    if !output.status.success() {
        bail!("{model}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let ours: Value = serde_json::from_slice(&output.stdout)?;
    let mut text = std::fs::read_to_string(model)?;
    for (written, buildable) in BUILDABLE {
        text = text.replace(written, buildable);
    }
    let theirs = target().join("storm-model.prism");
    std::fs::write(&theirs, text)?;
    let job = json!({"model": std::path::absolute(theirs)?, "constants": constants, "properties": TIMES});
    let theirs = ask(python, &job)?;
    let mut largest = 0.0_f64;
    for place in 0..TIMES.len() {
        let number = |value: &Value| value.as_f64().with_context(|| format!("{job}: {theirs}, {ours}"));
        let a = number(&ours["results"][place]["value"])?;
        let b = number(&theirs["values"][place])?;
        largest = largest.max((a - b).abs() / a.abs().max(b.abs()));
    }
    Ok((theirs["states"].clone(), largest))
}
