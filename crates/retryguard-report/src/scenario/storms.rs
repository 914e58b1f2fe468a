//! How likely it is that a storm outlasts the run.

use retryguard_sim::{
    comparison::{Plan, lasting_storms},
    scenario::Scenario,
    statistics::Proportion,
};
use serde_json::{Value, json};

use crate::table::aligned;

/// For each policy, how many runs had not recovered from the first fault when they ended.
pub struct Storms {
    scenario: String,
    seed: u64,
    seconds: f64,
    policies: Vec<(String, Proportion)>,
}

impl Storms {
    /// Runs every policy as often as the plan says; `None` where the scenario has no fault to recover from.
    #[must_use]
    pub fn count(scenario: &Scenario, plan: &Plan, step: &(dyn Fn() + Sync)) -> Option<Self> {
        let world = &scenario.world;
        let found = lasting_storms(world, &scenario.policies, &scenario.fixed, plan, &|_| step())?;
        let first = world.faults.iter().map(|fault| fault.from.as_nanos()).min()?;
        let names = scenario.policies.iter().map(|policy| policy.name.clone());
        Some(Self {
            scenario: scenario.name.clone(),
            seed: plan.seed.0,
            seconds: world.duration.as_secs_f64() - first as f64 / 1e9,
            policies: names.zip(found).collect(),
        })
    }

    /// The table for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut rows = vec![
            ["", "runs", "not recovered", "share", "95 % interval"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (name, found) in &self.policies {
            let (low, high) = found.interval();
            rows.push(vec![
                name.clone(),
                found.of.to_string(),
                found.count.to_string(),
                format!("{:.3} %", found.share() * 100.0),
                format!("{:.3} to {:.3} %", low * 100.0, high * 100.0),
            ]);
        }
        format!(
            "{}: seed {}, runs that have not recovered from the first fault {} s after it began\n\n{}",
            self.scenario,
            self.seed,
            self.seconds,
            aligned(&rows)
        )
    }

    /// The same for other programs.
    #[must_use]
    pub fn json(&self) -> String {
        let policy = |(name, found): &(String, Proportion)| -> Value {
            let (low, high) = found.interval();
            json!({"name": name, "runs": found.of, "lasting": found.count, "share": found.share(), "ci95": [low, high]})
        };
        let all = json!({
            "scenario": self.scenario,
            "seed": self.seed,
            "secondsAfterFault": self.seconds,
            "policies": self.policies.iter().map(policy).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}
