//! Many experiments: every chosen configuration under every chosen fault.

use super::{Experiment, Outcome, Phases, Stores, Trouble, run_all, table};
use crate::{Configuration, TimeScale};

/// Below this scale the spike of 500 users would ask two cores for more than twenty thousand orders a second.
const LEAST_FOR_THE_SPIKE: f64 = 0.25;

/// What to run.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Under which configurations.
    pub configurations: Vec<Configuration>,
    /// What breaks, one after the other.
    pub faults: Vec<Trouble>,
    /// On which stores.
    pub stores: Stores,
    /// The factor on all durations.
    pub time_scale: f64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Phases in place of those that are described for a fault.
    pub phases: Option<Phases>,
    /// How many runs at once.
    pub at_once: u8,
}

impl Batch {
    /// Runs all of it, and writes a line on standard error before and after each run.
    ///
    /// # Errors
    /// Where a system cannot be started, or its databases cannot be read.
    pub fn run(&self) -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for trouble in &self.faults {
            // The spike takes the whole machine, which is what it is measured by.
            let (least, at_once) = match trouble {
                Trouble::GatewayOverload => (LEAST_FOR_THE_SPIKE, 1),
                _ => (0.0, usize::from(self.at_once)),
            };
            let mut experiments = Vec::new();
            for configuration in &self.configurations {
                let experiment = Experiment {
                    stores: self.stores.clone(),
                    scale: self.scale(least)?,
                    seed: self.seed,
                    phases: self.phases.unwrap_or_else(|| Phases::of(*trouble)),
                    ..Experiment::described(*configuration, *trouble)
                };
                eprintln!("{}", experiment.header()?);
                experiments.push(experiment);
            }
            let said = |experiment: &Experiment, outcome: &Outcome| {
                crate::load::say(&format!(
                    "{}/{trouble}: {}",
                    experiment.configuration,
                    table::line(outcome)
                ));
            };
            outcomes.extend(crate::block_on(run_all(experiments, at_once, said))?);
        }
        Ok(outcomes)
    }

    fn scale(&self, least: f64) -> anyhow::Result<TimeScale> {
        TimeScale::new(self.time_scale)?;
        TimeScale::new(self.time_scale.max(least))
    }
}
