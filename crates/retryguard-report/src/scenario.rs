//! A scenario file, run under several policies, and its report.

mod csv;
mod differences;
mod json;
mod page;
mod pictures;
mod storms;
mod strips;
mod table;
mod units;

use retryguard_sim::{
    comparison::{Plan, Summary, compare, compare_until},
    scenario::Scenario,
    world::World,
};

pub use storms::Storms;
pub(crate) use units::{Swept, is_sweep, merge};

/// A scenario with its results.
pub struct Outcome {
    scenario: Scenario,
    seed: u64,
    replications: u32,
    policies: Vec<Summary>,
    sweep: Vec<(String, Vec<Summary>)>,
    against: Option<String>,
    until: Option<f64>,
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
        against: None,
        until: None,
    }
}

/// Runs every policy in the scenario's world, without its sweep, until all differences of goodput are known to within `share`;
/// at most as often as the plan says.
#[must_use]
pub fn run_until(scenario: Scenario, plan: &Plan, share: f64, step: &(dyn Fn() + Sync)) -> Outcome {
    let (policies, replications) = compare_until(
        &scenario.world,
        &scenario.policies,
        &scenario.fixed,
        plan,
        share,
        &|_| step(),
    );
    Outcome {
        scenario,
        seed: plan.seed.0,
        replications,
        policies,
        sweep: Vec::new(),
        against: None,
        until: Some(share),
    }
}

impl Outcome {
    /// The same, with the differences of every policy to the one of this name.
    #[must_use]
    pub fn against(self, policy: String) -> Self {
        Self {
            against: Some(policy),
            ..self
        }
    }

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
