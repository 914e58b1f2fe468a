//! The claims of the scenarios that reproduce papers, each as a test.

mod agreement;
mod contest;
mod figures;
mod matrix;
mod paper;
mod plain;
mod recovery;

use std::{fs, path::PathBuf};

use retryguard_sim::{
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
    streams::Seed,
    world::World,
};

/// The scenarios of the evidence, and those that users are given as examples.
fn folders() -> [PathBuf; 2] {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    [root.join("scenarios"), root.join("../scenarios")]
}

fn scenario(name: &str) -> Scenario {
    let file = |folder: &PathBuf| folder.join(name).with_extension("yaml");
    let folder = folders()
        .into_iter()
        .find(|folder| file(folder).exists())
        .unwrap_or_else(|| panic!("no scenario {name}"));
    let text = fs::read_to_string(file(&folder)).expect("a scenario can be read");
    let mut load = |path: &str| fs::read_to_string(folder.join(path)).map_err(|error| error.to_string());
    Scenario::parse(&text, name, &mut load).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"))
}

/// The policies of a scenario, one run each.
fn compared(scenario: &Scenario) -> Vec<Summary> {
    compared_in(&scenario.world, scenario)
}

/// The policies of a scenario, as often as it says.
fn replicated(scenario: &Scenario) -> Vec<Summary> {
    let plan = Plan {
        seed: Seed(1),
        replications: scenario.replications,
        threads: 2,
    };
    compare(
        &scenario.world,
        &scenario.policies,
        &scenario.fixed,
        &plan,
        &|_| (),
    )
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

#[test]
fn every_scenario_is_read_and_has_a_claim() {
    let mut worlds = 0;
    for entry in folders()
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
    {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        // Files of fleets are read by their own tests.
        let text = fs::read_to_string(&path).expect("a file");
        if text.lines().any(|line| line.starts_with("fleets:")) {
            continue;
        }
        let name = path.file_stem().expect("a name").to_string_lossy();
        let scenario = scenario(&name);
        assert!(!scenario.claim.trim().is_empty(), "{}", scenario.name);
        worlds += 1;
    }
    assert!(worlds >= 20, "{worlds}");
}
