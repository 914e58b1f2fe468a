//! Both on every instance of the suite, at full size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{TIMES, ask, checker, python, target};

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
    ("const int MAX_REOPEN = 1000;", "const int MAX_REOPEN = 3;"),
];

const AVAILABILITIES: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// The largest relative difference that counts as agreement.
const TOLERANCE: f64 = 1e-6;

/// Seconds of processor time after which Storm is asked for a chain at its default precision of 1e-6: with proven bounds at 1e-9 some
/// of the largest take more than five minutes.
const LIMIT: u32 = 180;

/// Compares every instance of the suite at full size, or those whose model and constants have `only` in them. With `chains` Storm
/// solves the chain that we reduced the model as written to, rather than a text that it can build.
pub(crate) fn agree(only: &str, chains: bool) -> anyhow::Result<()> {
    let python = python()?;
    let command = checker()?;
    let (mut largest, mut instances) = (0.0_f64, 0);
    println!("| model | instance | Storm: states | largest relative difference |");
    println!("| --- | --- | --- | --- |");
    for (model, parameter, values) in SUITE {
        for value in *values {
            for availability in AVAILABILITIES {
                let constants = format!("{parameter}={value},AV={availability}");
                if !format!("{model} {constants}").contains(only) {
                    continue;
                }
                let ours = ours(&command, model, &constants)?;
                let mut job = if chains {
                    exported(&command, model, &constants)?
                } else {
                    rewritten(model, &constants)?
                };
                let mut theirs = ask(&python, &job)?;
                let mut how = "";
                if theirs["late"] == true {
                    job["default"] = true.into();
                    job["limit"] = Value::Null;
                    theirs = ask(&python, &job)?;
                    how = ", at its default precision";
                }
                let difference = apart(&ours, &theirs).with_context(|| format!("{job}: {theirs}, {ours}"))?;
                let states = &theirs["states"];
                println!("| {model} | {constants} | {states}{how} | {difference:.1e} |");
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

fn run(command: &Path, model: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(command)
        .args(["check", model])
        .args(arguments)
        .output()
        .context("cannot run the checker")?;
    if !output.status.success() {
        bail!("{model}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Our answers, for the model as it is written.
fn ours(command: &Path, model: &str, constants: &str) -> anyhow::Result<Value> {
    let mut arguments = vec!["--json", "--const", constants];
    for property in TIMES {
        arguments.extend(["--prop", property]);
    }
    Ok(serde_json::from_slice(&run(command, model, &arguments)?)?)
}

/// The job of solving a text that Storm can build.
fn rewritten(model: &str, constants: &str) -> anyhow::Result<Value> {
    let mut text = std::fs::read_to_string(model)?;
    for (written, buildable) in BUILDABLE {
        text = text.replace(written, buildable);
    }
    let file = std::path::absolute(target().join("storm-model.prism"))?;
    std::fs::write(&file, text)?;
    Ok(json!({"model": file, "constants": constants, "properties": TIMES}))
}

/// The job of solving the chain that our reductions leave of the model as written. The last request is counted by a label there.
fn exported(command: &Path, model: &str, constants: &str) -> anyhow::Result<Value> {
    let chain = run(
        command,
        model,
        &["--const", constants, "--export", "drn", "--reduced"],
    )?;
    let file = std::path::absolute(target().join("storm-chain.drn"))?;
    std::fs::write(&file, chain)?;
    let properties: Vec<String> = TIMES
        .iter()
        .map(|property| property.replace("served=MAX_REQ", "\"done\""))
        .collect();
    Ok(json!({"model": file, "drn": true, "properties": properties, "limit": LIMIT}))
}

/// How far apart the two are, relative to the larger, or `None` where one has no number.
fn apart(ours: &Value, theirs: &Value) -> Option<f64> {
    let mut largest = 0.0_f64;
    for place in 0..TIMES.len() {
        let a = ours["results"][place]["value"].as_f64()?;
        let b = theirs["values"][place].as_f64()?;
        largest = largest.max((a - b).abs() / a.abs().max(b.abs()));
    }
    Some(largest)
}
