//! A draw of the tournament without the whole command: quick to build while a policy is being worked on.
//!
//!     cargo run --release -p retryguard-sim --example draw -- 200 1 none,finagle,retryguard,my-policy.yaml
//!
//! `ablate` in place of policies runs the default policy with one part changed at a time, and prints the differences.
//!
//! The arguments are the number of worlds, the seed, and optionally policies, by name or by path; `retryguard simulate
//! tournament --draw` prints the same tables. A fourth argument chooses the kinds that are shown, by a part of their name:
//! all worlds are drawn, the others are not run.

use std::{error::Error, path::Path};

use retryguard_sim::{
    client_policy::{ClientPolicy, named},
    comparison::Plan,
    draw::{ablations, judge_some},
    streams::Seed,
    tournament::{ORACLE, policies},
};

/// In place of policies: the default policy with one part changed at a time.
const ABLATE: &str = "ablate";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.first().map_or(Ok(20), |text| text.parse())?;
    let seed = arguments.get(1).map_or(Ok(1), |text| text.parse())?;
    let mut client_policies = match arguments.get(2) {
        None => policies(),
        Some(names) if names == ABLATE => ablations(),
        Some(names) => names.split(',').map(client_policy).collect::<Result<_, _>>()?,
    };
    if client_policies
        .iter()
        .all(|client_policy| client_policy.name != ORACLE)
    {
        client_policies.extend(named(ORACLE));
    }
    let kinds = arguments.get(3).map_or("", String::as_str);
    let plan = Plan {
        seed: Seed(seed),
        replications: 1,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let report = judge_some(
        &client_policies,
        &plan,
        count,
        &|drawn| drawn.kind.contains(kinds),
        &|_| (),
    );
    if arguments.get(2).is_some_and(|names| names == ABLATE) {
        show("differences", &report.difference_rows());
        return Ok(());
    }
    show("policies", &report.policy_rows());
    for (title, rows) in report.kind_tables() {
        show(&title, &rows);
    }
    for client_policy in client_policies
        .iter()
        .filter(|client_policy| !client_policy.digest().is_empty())
    {
        if let Some((title, rows)) = report.lost_worlds(&client_policy.name) {
            show(&title, &rows);
        }
    }
    for (policy, row, goodput) in report.above() {
        println!(
            "above the oracle: {policy} in {}: {:.1}",
            row.world,
            100.0 * goodput
        );
    }
    Ok(())
}

/// A policy by its name or by the path of its file.
fn client_policy(text: &str) -> Result<ClientPolicy, Box<dyn Error>> {
    if let Some(known) = named(text) {
        return Ok(known);
    }
    let file = std::fs::read_to_string(text).map_err(|error| format!("{text}: {error}"))?;
    let stem = Path::new(text)
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let client_policy = ClientPolicy::of_text(stem.unwrap_or_default(), &file);
    Ok(client_policy.map_err(|mistakes| format!("{text}: {mistakes}"))?)
}

fn show(title: &str, rows: &[Vec<String>]) {
    println!("{title}");
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(place, cell)| {
                if place == 0 {
                    format!("{cell:<24}")
                } else {
                    format!("{cell:>12}")
                }
            })
            .collect();
        println!("{}", cells.join(" "));
    }
    println!();
}
