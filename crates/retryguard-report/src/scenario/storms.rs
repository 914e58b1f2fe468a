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
            "{}: seed {}, runs that have not recovered from the first fault {} s after it began\n\n{}\n{}\n",
            self.scenario,
            self.seed,
            self.seconds,
            aligned(&rows),
            sentence(&self.policies)
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

/// Under which policy the storm lasted most often, and which always recovered.
fn sentence(policies: &[(String, Proportion)]) -> String {
    let Some((worst, most)) = policies.iter().max_by(|a, b| a.1.share().total_cmp(&b.1.share())) else {
        return "There is no policy to compare.".to_owned();
    };
    if most.count == 0 {
        return format!("Every policy recovered in all {} runs.", most.of);
    }
    let calm: Vec<&str> = policies
        .iter()
        .filter(|(_, found)| found.count == 0)
        .map(|(name, _)| name.as_str())
        .collect();
    let rest = match calm.is_empty() {
        true => "no policy recovered in all runs".to_owned(),
        false => format!("{} recovered in all runs", calm.join(", ")),
    };
    format!(
        "{worst} did not recover in {} of {} runs; {rest}.",
        most.count, most.of
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_which_policy_recovers() {
        let found = |name: &str, count: u32| (name.to_owned(), Proportion { count, of: 20 });
        let all = [found("none", 0), found("bare", 19), found("guard", 1)];
        assert_eq!(
            sentence(&all),
            "bare did not recover in 19 of 20 runs; none recovered in all runs."
        );
        assert_eq!(sentence(&all[..1]), "Every policy recovered in all 20 runs.");
        assert_eq!(
            sentence(&all[1..]),
            "bare did not recover in 19 of 20 runs; no policy recovered in all runs."
        );
    }
}
