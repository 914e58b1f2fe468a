//! The simulator from outside: the scenarios that users are given, and the tournament.

mod amplification;
mod catalogue;
mod endpoints;
mod keys;
mod tournament;
mod worlds;

use std::{fs, path::PathBuf};

use retryguard_sim::{
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
    streams::Seed,
    world::World,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn scenario(name: &str) -> Scenario {
    let text = fs::read_to_string(folder().join(name).with_extension("yaml"))
        .expect("a scenario of the catalogue is there");
    let mut load = |path: &str| fs::read_to_string(folder().join(path)).map_err(|error| error.to_string());
    Scenario::parse(&text, name, &mut load).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"))
}

/// The policies of a scenario, one run each.
fn compared(scenario: &Scenario) -> Vec<Summary> {
    compared_in(&scenario.world, scenario)
}

fn compared_in(world: &World, scenario: &Scenario) -> Vec<Summary> {
    let plan = Plan {
        seed: Seed(1),
        replications: 1,
        threads: 2,
    };
    compare(world, &scenario.policies, &scenario.fixed, &plan, &|_| ())
}

fn of<'a>(summaries: &'a [Summary], name: &str) -> &'a Summary {
    summaries
        .iter()
        .find(|summary| summary.name == name)
        .unwrap_or_else(|| panic!("no policy {name}"))
}

#[track_caller]
fn within(found: f64, low: f64, high: f64) {
    assert!(
        (low..=high).contains(&found),
        "{found} is not within {low} and {high}"
    );
}
