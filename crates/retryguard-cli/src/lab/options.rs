//! `retryguard lab run` and `retryguard lab matrix`: what is run, and how it is told.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use retryguard_lab::{
    Configuration, TimeScale,
    experiment::{self, Experiment, Machine, Outcome, Phases, SWEPT_PHASES, Trouble},
};

use super::{capacity, prediction, report, results::Results, stores, tables};
use crate::output;

/// Below this scale the spike of 500 users would ask two cores for more than twenty thousand orders a second.
const LEAST_FOR_THE_SPIKE: f64 = 0.25;

/// Runs configurations under faults and tells what was measured.
#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    options: Options,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs every configuration under every fault and writes the report: tables, answers, pictures, predictions.
#[derive(Args)]
pub(super) struct Matrix {
    #[command(flatten)]
    options: Options,
    /// Leave the capacity sweep out.
    #[arg(long)]
    no_sweep: bool,
    /// The factor on all durations of the capacity sweep, whose load is open and heavier than that of the runs.
    #[arg(long, default_value_t = 1.0)]
    sweep_scale: f64,
}

#[derive(Args)]
struct Options {
    /// The configurations: letters from A to G, such as G, A,B,G or A..F.
    #[arg(long, value_name = "A..G")]
    config: Option<String>,
    /// The faults: none, payment_errors, payment_slow, inventory_lock, retry_storm, gateway_overload.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    fault: Vec<Trouble>,
    #[command(flatten)]
    stores: stores::Choice,
    /// The factor on all durations.
    #[arg(long, default_value_t = 0.1)]
    time_scale: f64,
    /// The seed of all chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Warm-up, fault and recovery in seconds, such as 20+120+60, in place of those that are described.
    #[arg(long, value_name = "W+F+R")]
    phases: Option<Phases>,
    /// How many runs at once, 1 to 16. A run mostly waits: several at once at a larger time scale are disturbed less by the
    /// machine than one after the other at a smaller one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    at_once: u8,
    /// The folder that results are written into.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let options = &self.options;
        let configurations = options.configurations(&[Configuration::G])?;
        let outcomes = options.outcomes(&configurations, &options.faults(&[Trouble::PaymentErrors]))?;
        let results = Results::new(Machine::now(), outcomes);
        let text = if self.json {
            format!("{:#}\n", output::camel_case(results.json()))
        } else {
            tables::terminal(&results)
        };
        if let Some(folder) = &options.out {
            output::write(
                folder,
                &[
                    ("runs.json".to_owned(), format!("{:#}\n", results.json())),
                    ("runs.csv".to_owned(), tables::csv(&results)),
                ],
            )?;
        }
        output::print(&text)
    }
}

impl Matrix {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let options = &self.options;
        let folder = options.out.clone().unwrap_or_else(|| PathBuf::from("lab-matrix"));
        let made = !folder.exists();
        // A folder that cannot be written is better known now than in a quarter of an hour.
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let result = self.run_into(&folder);
        if result.is_err() && made {
            // Only an empty folder is removed: what was written stays.
            let _ = fs::remove_dir(&folder);
        }
        result
    }

    fn run_into(&self, folder: &Path) -> anyhow::Result<()> {
        let options = &self.options;
        let (configurations, faults) = (
            options.configurations(&Configuration::ALL)?,
            options.faults(&Trouble::ALL),
        );
        let machine = Machine::now();
        let predictions = prediction::all(&configurations, &faults, options.seed)?;
        let outcomes = options.outcomes(&configurations, &faults)?;
        let mut results = Results::new(machine, outcomes);
        results.at_once = self.options.at_once;
        results.predictions = predictions;
        if !self.no_sweep {
            let plan = capacity::Plan {
                stores: &options.stores,
                scale: self.sweep_scale,
                seed: options.seed,
                phases: SWEPT_PHASES,
                at_once: options.at_once,
                tries: 1,
            };
            results.sweep = Some(plan.run()?);
        }
        output::write(folder, &report::files(&results))?;
        output::print(&tables::terminal(&results))
    }
}

impl Options {
    fn configurations(&self, usual: &[Configuration]) -> anyhow::Result<Vec<Configuration>> {
        let Some(text) = &self.config else {
            return Ok(usual.to_vec());
        };
        let mut chosen = Vec::new();
        for part in text.split(',') {
            if let Some((first, last)) = part.split_once("..") {
                let (first, last): (Configuration, Configuration) = (first.parse()?, last.parse()?);
                chosen.extend(
                    Configuration::ALL
                        .into_iter()
                        .filter(|it| (first..=last).contains(it)),
                );
            } else {
                chosen.push(part.parse()?);
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.is_empty() {
            anyhow::bail!(
                "`{text}` names no configuration: write letters from A to G, such as A,B,G or A..F"
            );
        }
        Ok(chosen)
    }

    fn faults(&self, usual: &[Trouble]) -> Vec<Trouble> {
        let mut chosen = if self.fault.is_empty() {
            usual.to_vec()
        } else {
            self.fault.clone()
        };
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    fn scale(&self, least: f64) -> anyhow::Result<TimeScale> {
        TimeScale::new(self.time_scale)?;
        TimeScale::new(self.time_scale.max(least))
    }

    fn outcomes(&self, configurations: &[Configuration], faults: &[Trouble]) -> anyhow::Result<Vec<Outcome>> {
        eprintln!("{}", Machine::now());
        let mut outcomes = Vec::new();
        for trouble in faults {
            // The spike takes the whole machine, which is what it is measured by.
            let (least, at_once) = match trouble {
                Trouble::GatewayOverload => (LEAST_FOR_THE_SPIKE, 1),
                _ => (0.0, usize::from(self.at_once)),
            };
            let mut experiments = Vec::new();
            for configuration in configurations {
                let experiment = Experiment {
                    stores: self.stores.stores()?,
                    scale: self.scale(least)?,
                    seed: self.seed,
                    phases: self.phases.unwrap_or_else(|| Phases::of(*trouble)),
                    ..Experiment::described(*configuration, *trouble)
                };
                eprintln!("{}", experiment.header()?);
                experiments.push(experiment);
            }
            let said = |experiment: &Experiment, outcome: &Outcome| {
                retryguard_lab::load::say(&format!(
                    "{}/{trouble}: {}",
                    experiment.configuration,
                    tables::line(outcome)
                ));
            };
            outcomes.extend(retryguard_lab::block_on(experiment::run_all(
                experiments,
                at_once,
                said,
            ))?);
        }
        Ok(outcomes)
    }
}
