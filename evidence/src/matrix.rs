//! Every configuration of the laboratory under every fault, beside what the simulator predicts and what a paper claims.

mod capacity;
mod claimed;
mod claims;
mod prediction;
mod questions;
mod report;
mod results;
mod sections;
mod stores;
mod tables;
mod timelines;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use retryguard_lab::{
    Configuration,
    experiment::{Batch, Machine, Phases, SWEPT_PHASES, Trouble, table},
};

use crate::output;
use results::Results;

pub(crate) use capacity::Arguments as Sweep;

/// Runs every configuration under every fault and writes the report: tables, answers, charts, predictions.
#[derive(Args)]
pub(crate) struct Matrix {
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
    /// The seed of all random numbers.
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
    /// Leave the capacity sweep out.
    #[arg(long)]
    no_sweep: bool,
    /// The factor on all durations of the capacity sweep, whose load is open and heavier than that of the runs.
    #[arg(long, default_value_t = 1.0)]
    sweep_scale: f64,
}

/// Makes the report of a matrix or a sweep again from its numbers. Charts over time stay as they are.
#[derive(Args)]
pub(crate) struct Report {
    /// The folder, with the runs.json of a matrix or the sweep.json of a sweep.
    folder: PathBuf,
    /// The sweep.json of a sweep, in place of the matrix's own sweep.
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// Runs the simulator again, too.
    #[arg(long)]
    predict: bool,
}

impl Report {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        report::again(&self.folder, self.sweep.as_deref(), self.predict)
    }
}

impl Matrix {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let folder = self.out.clone().unwrap_or_else(|| PathBuf::from("lab-matrix"));
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
        let mut faults = self.fault.clone();
        faults.sort_unstable();
        faults.dedup();
        if faults.is_empty() {
            faults = Trouble::ALL.to_vec();
        }
        let batch = Batch {
            configurations: match &self.config {
                Some(text) => Configuration::list(text)?,
                None => Configuration::ALL.to_vec(),
            },
            faults,
            stores: self.stores.stores()?,
            time_scale: self.time_scale,
            seed: self.seed,
            phases: self.phases,
            at_once: self.at_once,
        };
        let machine = Machine::now();
        eprintln!("{machine}");
        let predictions = prediction::all(&batch.configurations, &batch.faults, self.seed)?;
        let mut results = Results::new(machine, batch.run()?);
        results.at_once = self.at_once;
        results.predictions = predictions;
        if !self.no_sweep {
            let plan = capacity::Plan {
                stores: batch.stores,
                scale: self.sweep_scale,
                seed: self.seed,
                phases: SWEPT_PHASES,
                at_once: self.at_once,
                tries: 1,
            };
            results.sweep = Some(plan.run()?);
        }
        output::write(folder, &report::files(&results))?;
        output::print(&table::terminal(&results.outcomes))
    }
}
