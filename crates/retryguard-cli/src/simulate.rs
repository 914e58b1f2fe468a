//! `retryguard simulate`: what a policy will do in a system, before it is deployed.

use std::path::PathBuf;

use anyhow::bail;
use retryguard_report::simulate::{Simulation, SimulationError};

use crate::output::{print, write};

/// Simulate a scenario with the decision code that runs in production.
///
/// A scenario file describes services, clients, faults and prices, and lists the policies to compare; see
/// docs/scenarios.md. The same seed and files give the same result, to the byte.
///
/// Exits with 0, or with 2 when the scenario cannot be used.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard simulate scenario.yaml
  retryguard simulate scenario.yaml --policy none virtual-service.yaml policy.yaml
  retryguard simulate scenario.yaml --until-ci 1% --against none
  retryguard simulate scenario.yaml --storms --replications 1000
  retryguard simulate tournament
  retryguard simulate tournament --draw 200 --seed 1 --ablate
  retryguard simulate tournament --draw 1000 --units 8 --unit 0 --out results
  retryguard simulate scenario.yaml --units 8 --unit 0 --out results
  retryguard simulate merge results
  retryguard simulate scenario.yaml --replications 20 --out report")]
pub(crate) struct Arguments {
    /// The scenario file; or `tournament`, for every known policy in many worlds; or `merge`, for the units in a folder.
    file: PathBuf,
    /// With `merge`: the folder that `--unit` wrote into.
    folder: Option<PathBuf>,
    /// Compare only these: names of the scenario's policies, known names, or paths of policy files, those of Envoy,
    /// Istio and the other systems that `retryguard import` reads among them.
    #[arg(long = "policy", alias = "policies", value_name = "P", num_args = 1.., value_delimiter = ',')]
    policies: Vec<String>,
    /// The seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often each policy is run, for confidence intervals. The scenario may give another default.
    #[arg(long, value_name = "N")]
    replications: Option<u32>,
    /// Repeat until every difference of goodput between two policies is known to within this share of the larger one, such as
    /// `1%`, with 95 % confidence; at most 1000 times, or as often as `--replications` says.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    until_ci: Option<f64>,
    /// Count the runs in which the world has not recovered from its first fault when the run ends, out of `--replications`: how
    /// likely it is that a storm lasts, with an exact 95 % confidence interval.
    #[arg(long, conflicts_with_all = ["until_ci", "against", "draw", "out", "csv"])]
    storms: bool,
    /// Show the differences of every policy to this one over the same replications, with their confidence intervals.
    #[arg(long, value_name = "POLICY")]
    against: Option<String>,
    /// With `tournament`: run in so many worlds that are drawn at random by the seed, instead of those of the
    /// catalogue.
    #[arg(long, value_name = "N")]
    draw: Option<u32>,
    /// With `--draw`: the default policy with one part changed at a time, and what each part is worth.
    #[arg(long, requires = "draw", conflicts_with = "policies")]
    ablate: bool,
    /// Divide the worlds of `--draw`, or those of the scenario's `sweep`, into so many units of work, to run them on several
    /// machines. Without `--unit` this prints which worlds each unit has.
    #[arg(long, value_name = "N")]
    units: Option<u32>,
    /// Run this unit only, from 0, and write its result into the folder of `--out`.
    #[arg(long, value_name = "K", requires = "units", requires = "out")]
    unit: Option<u32>,
    /// How many threads run; all cores by default. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write a report with pictures into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print comma-separated values.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut tell = |line: String| eprintln!("{line}");
        let simulation = self.simulation();
        let (word, folder) = (self.file.as_os_str(), &self.folder);
        if self.units.is_some() && (self.json || self.csv) {
            bail!("--json and --csv belong to `retryguard simulate merge DIR`, which has the whole result");
        }
        let answer = match folder {
            Some(folder) if word == "merge" => Simulation::merge(folder)?,
            None if word == "merge" => {
                bail!("give the folder that the units were written into: retryguard simulate merge DIR")
            }
            Some(folder) => bail!(
                "{} is one argument too many; a folder belongs to `retryguard simulate merge DIR`",
                folder.display()
            ),
            None if word == "tournament" => simulation.tournament(&mut tell)?,
            None if self.draw.is_some() => return Err(SimulationError::Draw.into()),
            None => simulation.run(&mut tell)?,
        };
        if let Some(folder) = &self.out {
            write(folder, &answer.files())?;
        }
        print(&if self.json {
            answer.json()
        } else if self.csv {
            answer.csv()
        } else {
            answer.text()
        })
    }

    fn simulation(&self) -> Simulation {
        Simulation {
            file: self.file.clone(),
            policies: self.policies.clone(),
            seed: self.seed,
            replications: self.replications,
            until: self.until_ci,
            storms: self.storms,
            against: self.against.clone(),
            threads: self.threads,
            draw: self.draw,
            ablate: self.ablate,
            units: self.units,
            unit: self.unit,
            out: self.out.clone(),
        }
    }
}

/// A share such as `1%` or `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number / scale < 1.0 => Ok(number / scale),
        _ => Err("give a share above 0 and below 100%, such as 1%".to_owned()),
    }
}
