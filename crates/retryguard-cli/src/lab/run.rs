//! `retryguard lab run`: configurations under faults.

use std::path::PathBuf;

use clap::Args;
use retryguard_lab::{
    Configuration,
    experiment::{Batch, Machine, Phases, Trouble, camel_case, table},
};

use super::stores;
use crate::output;

/// Run configurations under faults and print what was measured.
#[derive(Args)]
#[command(after_help = "Examples:
  retryguard lab run --config A,C,G --fault payment_errors
  retryguard lab run --config A..G --fault payment_slow,retry_storm --at-once 4 --out results")]
pub(super) struct Run {
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
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let mut faults = self.fault.clone();
        faults.sort_unstable();
        faults.dedup();
        if faults.is_empty() {
            faults.push(Trouble::PaymentErrors);
        }
        let batch = Batch {
            configurations: match &self.config {
                Some(text) => Configuration::list(text)?,
                None => vec![Configuration::G],
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
        let outcomes = batch.run()?;
        let json = table::json(&machine, self.at_once, &outcomes);
        if let Some(folder) = &self.out {
            let files = [
                ("runs.json".to_owned(), format!("{json:#}\n")),
                ("runs.csv".to_owned(), table::csv(&outcomes)),
            ];
            output::write(folder, &files)?;
        }
        output::print(&if self.json {
            format!("{:#}\n", camel_case(json))
        } else {
            table::terminal(&outcomes)
        })
    }
}
