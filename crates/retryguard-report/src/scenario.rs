//! A scenario file, run under several policies, and its report.

mod csv;
mod json;
mod page;
mod pictures;
mod strips;
mod table;

use retryguard_sim::{
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
    world::World,
};

/// A scenario with its results.
pub struct Outcome {
    scenario: Scenario,
    seed: u64,
    replications: u32,
    policies: Vec<Summary>,
    sweep: Vec<(String, Vec<Summary>)>,
}

/// How many runs a scenario takes.
#[must_use]
pub fn runs(scenario: &Scenario, plan: &Plan) -> usize {
    let worlds = 1 + scenario.sweep.as_ref().map_or(0, |sweep| sweep.worlds.len());
    worlds * scenario.policies.len() * plan.replications as usize
}

/// Runs every policy in the scenario's world, and in each world of its sweep; `step` is called after each run.
#[must_use]
pub fn run(scenario: Scenario, plan: &Plan, step: &(dyn Fn() + Sync)) -> Outcome {
    let compared = |world: &World| compare(world, &scenario.policies, &scenario.fixed, plan, &|_| step());
    let policies = compared(&scenario.world);
    let sweep = match &scenario.sweep {
        None => Vec::new(),
        Some(sweep) => sweep
            .worlds
            .iter()
            .map(|(label, world)| (label.clone(), compared(world)))
            .collect(),
    };
    Outcome {
        scenario,
        seed: plan.seed.0,
        replications: plan.replications,
        policies,
        sweep,
    }
}

impl Outcome {
    /// The tables for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        table::of(self)
    }

    /// The result for other programs.
    #[must_use]
    pub fn json(&self) -> String {
        format!("{:#}\n", json::of(self))
    }

    /// One line for each policy.
    #[must_use]
    pub fn csv(&self) -> String {
        csv::of(self)
    }

    /// The report in a folder: each file with its name. `path` is that of the scenario, as the page shall show it.
    #[must_use]
    pub fn files(&self, path: &str) -> Vec<(String, String)> {
        page::files(self, path)
    }
}
