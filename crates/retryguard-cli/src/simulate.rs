//! `retryguard simulate`: what a policy will do in a system, before it is deployed.

mod fleets;
mod progress;
mod units;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use retryguard_policy::reading::nearest;
use retryguard_report::{scenario, tournament};
use retryguard_sim::{
    comparison::Plan,
    conduct::{Conduct, NAMES, named},
    draw::{MOST_WORLDS, ablations},
    scenario::Scenario,
    streams::Seed,
    tournament::ORACLE,
};

use crate::output::{print, write};
pub(crate) use progress::Progress;

/// Simulate a scenario: the same machines that run in production, in a whole world.
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
    /// The seed of all chance.
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
    /// With `--draw`: divide the worlds into so many units of work, to run them on several machines. Without `--unit` this
    /// prints which worlds each unit has.
    #[arg(long, value_name = "N", requires = "draw")]
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

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    crate::output::exit("simulate", try_run(arguments))
}

fn try_run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.file.as_os_str() == "merge" {
        return units::merge(arguments);
    }
    if let Some(folder) = &arguments.folder {
        bail!(
            "{} is one argument too many; a folder belongs to `retryguard simulate merge DIR`",
            folder.display()
        );
    }
    if arguments.file.as_os_str() == "tournament" {
        if arguments.until_ci.is_some() || arguments.against.is_some() || arguments.storms {
            bail!(
                "--until-ci, --against and --storms belong to a scenario file; a draw has many worlds instead of many replications"
            );
        }
        return try_tournament(arguments);
    }
    if arguments.draw.is_some() {
        bail!("--draw belongs to `retryguard simulate tournament`");
    }
    let text = match fleets::simulate(arguments)? {
        Some(text) => text,
        None => worlds(arguments)?,
    };
    print(&text)
}

fn try_tournament(arguments: &Arguments) -> anyhow::Result<()> {
    let mut conducts = if arguments.ablate {
        ablations()
    } else if arguments.policies.is_empty() {
        retryguard_sim::tournament::policies()
    } else {
        chosen(&arguments.policies, &[])?
    };
    if conducts.iter().all(|conduct| conduct.name != ORACLE) {
        conducts.extend(named(ORACLE));
    }
    let plan = plan(arguments, 1)?;
    if let Some(count) = arguments.draw {
        if !(1..=MOST_WORLDS).contains(&count) {
            bail!("--draw is {count}; give a number of worlds from 1 to {MOST_WORLDS}");
        }
        if let Some(units) = arguments.units {
            return units::run(arguments, units, &conducts, &plan, count);
        }
        let progress = Progress::new(count as usize * conducts.len() * plan.replications as usize);
        let result = tournament::draw(&conducts, &plan, count, &|| progress.step());
        progress.finish();
        return show(arguments, &result, arguments.ablate);
    }
    let progress = Progress::new(tournament::runs(&conducts, &plan));
    let result = tournament::run(&conducts, &plan, &|| progress.step());
    progress.finish();
    if let Some(folder) = &arguments.out {
        write(folder, &result.files())?;
    }
    print(&if arguments.json {
        result.json()
    } else if arguments.csv {
        result.csv()
    } else {
        result.text()
    })
}

/// How often `--until-ci` repeats at most.
const MOST_REPLICATIONS: u32 = 1000;

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

/// Writes and prints the result of a draw.
fn show(arguments: &Arguments, result: &tournament::Draw, ablation: bool) -> anyhow::Result<()> {
    if let Some(folder) = &arguments.out {
        write(folder, &result.files())?;
    }
    print(&if arguments.json {
        result.json()
    } else if arguments.csv {
        result.csv()
    } else if ablation {
        result.differences()
    } else {
        result.text()
    })
}

fn plan(arguments: &Arguments, usual: u32) -> anyhow::Result<Plan> {
    if arguments.replications == Some(0) {
        bail!("--replications is 0; give at least 1");
    }
    Ok(Plan {
        seed: Seed(arguments.seed),
        replications: arguments.replications.unwrap_or(usual),
        threads: threads(arguments.threads),
    })
}

/// The threads that were asked for, or one for each core.
pub(crate) fn threads(wanted: Option<u16>) -> usize {
    wanted.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    )
}

/// What is printed for a world of services.
fn worlds(arguments: &Arguments) -> anyhow::Result<String> {
    let mut scenario = read(&arguments.file)?;
    if !arguments.policies.is_empty() {
        let own: Vec<Conduct> = scenario.policies.iter().chain(&scenario.fixed).cloned().collect();
        scenario.policies = chosen(&arguments.policies, &own)?;
        let services: Vec<&str> = scenario
            .world
            .services
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        for unmatched in scenario.policies.iter().filter_map(|it| it.unmatched(&services)) {
            eprintln!("warning: {unmatched}");
        }
    }
    if let Some(name) = &arguments.against
        && scenario.policies.iter().all(|policy| policy.name != *name)
    {
        let known: Vec<&str> = scenario.policies.iter().map(|it| it.name.as_str()).collect();
        bail!(
            "--against {name}: no compared policy has this name; give one of {}",
            known.join(", ")
        );
    }
    if arguments.storms {
        return storms(arguments, &scenario);
    }
    let mut outcome = match arguments.until_ci {
        None => {
            let plan = plan(arguments, scenario.replications)?;
            let progress = Progress::new(scenario::runs(&scenario, &plan));
            let outcome = scenario::run(scenario, &plan, &|| progress.step());
            progress.finish();
            outcome
        }
        Some(_) if scenario.sweep.is_some() => {
            bail!(
                "--until-ci: the scenario has a `sweep`, and each of its worlds would stop elsewhere; remove one of the two"
            )
        }
        Some(share) => {
            let plan = plan(arguments, MOST_REPLICATIONS)?;
            let progress = Progress::new(scenario::runs(&scenario, &plan));
            let outcome = scenario::run_until(scenario, &plan, share, &|| progress.step());
            progress.finish();
            outcome
        }
    };
    if let Some(name) = &arguments.against {
        outcome = outcome.against(name.clone());
    }
    if let Some(folder) = &arguments.out {
        write(folder, &outcome.files(&arguments.file.display().to_string()))?;
    }
    Ok(if arguments.json {
        outcome.json()
    } else if arguments.csv {
        outcome.csv()
    } else {
        outcome.text()
    })
}

/// What is printed of storms that last.
fn storms(arguments: &Arguments, scenario: &Scenario) -> anyhow::Result<String> {
    if scenario.sweep.is_some() {
        bail!("--storms: the scenario has a `sweep`; remove one of the two");
    }
    let plan = plan(arguments, scenario.replications)?;
    let progress = Progress::new(scenario::runs(scenario, &plan));
    let found = scenario::Storms::count(scenario, &plan, &|| progress.step());
    progress.finish();
    let Some(found) = found else {
        bail!(
            "--storms: the scenario has no `faults`, so there is nothing to recover from; add the fault that starts the storm"
        );
    };
    Ok(if arguments.json {
        found.json()
    } else {
        found.text()
    })
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Scenario> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}; give the path of a scenario file", path.display()))?;
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut load = |policy: &str| fs::read_to_string(folder.join(policy)).map_err(|error| error.to_string());
    Scenario::parse(&text, &name, &mut load)
        .map_err(|mistakes| anyhow::anyhow!("{} has mistakes:\n{mistakes}", path.display()))
}

/// The policies that the command line names: the scenario's own first, then known names, then files.
fn chosen(wanted: &[String], own: &[Conduct]) -> anyhow::Result<Vec<Conduct>> {
    wanted
        .iter()
        .map(|name| {
            if let Some(own) = own.iter().find(|it| it.name == *name) {
                return Ok(own.clone());
            }
            if let Some(known) = named(name) {
                return Ok(known);
            }
            let path = Path::new(name);
            if !path.exists() {
                let known = own
                    .iter()
                    .map(|it| it.name.as_str())
                    .chain(NAMES.iter().map(|(name, _)| *name));
                // A scenario may name what is known anyway.
                let mut known: Vec<&str> = known.collect();
                let mut seen = BTreeSet::new();
                known.retain(|name| seen.insert(*name));
                let near = nearest(name, known.iter().copied())
                    .map_or_else(String::new, |near| format!("did you mean {near}? "));
                bail!(
                    "there is no policy {name}; {near}give one of {}, or the path of a policy file",
                    known.join(", ")
                );
            }
            let file = crate::foreign::read(path)?;
            let policy = crate::foreign::policy(&file, name)?;
            let stem = path
                .file_stem()
                .map_or_else(|| name.clone(), |stem| stem.to_string_lossy().into_owned());
            Ok(match file.imported {
                None => Conduct::of_text(stem.clone(), &file.text)
                    .unwrap_or_else(|_| Conduct::of_policy(stem, policy)),
                Some(imported) => Conduct::of_imported(stem.clone(), &imported)
                    .unwrap_or_else(|_| Conduct::of_policy(stem, policy)),
            })
        })
        .collect()
}
