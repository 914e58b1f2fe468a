//! `retryguard check`: a model and properties in, values out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use retryguard_model::{Format, Options, Which, sweep};
use retryguard_tune::{ModelFile, ModelFileError, Report, Row, answers};

use crate::modelled::World;
use crate::output::{Unanswered, print};
use crate::tune::{MORE_TIME, tuned};

/// Check a model in the PRISM language, or the model of a policy.
///
/// Exits with 0 when every property has an answer, with 1 when one has none (the model has a mistake, or a limit is reached), and
/// with 2 when something else must be given.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  retryguard check model.prism --prop 'P=? [ F<=10 x=3 ]'
  retryguard check --policy policy.yaml --service payments
  retryguard check --policy virtual-service.yaml --service reviews --response-time 50ms
  retryguard check --policy policy.yaml --service payments --svg trade-off.svg")]
pub(crate) struct Check {
    /// The model: a file in the PRISM language that describes a continuous-time Markov chain (`ctmc`).
    model: Option<PathBuf>,
    /// A property, such as 'P=? [ F<=10 x=3 ]'. May be given more than once.
    #[arg(long = "prop", value_name = "PROPERTY")]
    properties: Vec<String>,
    /// A file of properties.
    #[arg(long = "props", value_name = "FILE")]
    property_file: Option<PathBuf>,
    /// Values of open constants: A=0.5,B=0:10:40 (from:step:to). May be given more than once.
    #[arg(long = "const", value_name = "NAME=VALUE")]
    constants: Vec<String>,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values.
    #[arg(long)]
    csv: bool,
    /// Print the chain instead of values, with every label and every reward: as written, unless --reduced is given.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["properties", "property_file", "json", "csv", "truncate"])]
    export: Option<Export>,
    /// With --export: the chain after reductions, which change no label and no reward.
    #[arg(long, requires = "export", conflicts_with = "no_reduce")]
    reduced: bool,
    #[command(flatten)]
    world: World,
    /// With --policy: try other settings, as `retryguard tune` does, and draw the trade-off.
    #[arg(long, value_name = "FILE", requires = "policy", conflicts_with = "csv")]
    svg: Option<PathBuf>,
    /// Build the chain as written, without reductions.
    #[arg(long)]
    no_reduce: bool,
    /// Stop with an error at a state that nothing leaves, instead of giving it a self-loop with a note.
    #[arg(long)]
    refuse_deadlocks: bool,
    /// Do not explore states that are reached with less than this probability, and report a lower and an upper bound.
    #[arg(long, value_name = "PROBABILITY", value_parser = likelihood)]
    truncate: Option<f64>,
    /// States that may be built.
    #[arg(long, default_value_t = Options::default().max_states)]
    max_states: u64,
    /// Memory that the command may take, in MiB: 32 for the program, the rest for the chains that are solved at a time.
    #[arg(long, value_name = "MIB", default_value_t = Options::default().max_memory >> 20, value_parser = mebibytes)]
    max_memory: u64,
    /// Instances solved at a time; all cores if not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Export {
    /// Graphviz.
    Dot,
    /// The direct encoding that Storm reads.
    Drn,
}

impl Check {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(threads) = self.threads {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build_global()
                .context("cannot start the threads")?;
        }
        if self.world.policy.is_some() {
            return self.run_policy();
        }
        match &self.model {
            Some(path) => self.run_model(path),
            None => bail!("nothing to check is given: give a model or --policy FILE"),
        }
    }

    fn options(&self) -> Options {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Options {
            max_states: self.max_states,
            max_memory: (self.max_memory - PROGRAM).saturating_mul(1 << 20),
            reduce: !self.no_reduce,
            fix_deadlocks: !self.refuse_deadlocks,
            truncate: self.truncate,
            progress: terminal.then_some(show_progress as fn(u64)),
            ..Options::default()
        }
    }

    fn run_model(&self, path: &Path) -> anyhow::Result<()> {
        let model = ModelFile::read(path).map_err(usage)?;
        let instances = sweep::instances(&self.constants)?;
        let options = self.options();
        if let Some(export) = self.export {
            let [constants] = instances.as_slice() else {
                bail!("--export takes one value for each constant, not a range");
            };
            let which = match self.reduced {
                true => Which::Reduced,
                false => Which::Written,
            };
            let format = match export {
                Export::Dot => Format::Dot,
                Export::Drn => Format::Drn,
            };
            return print(&model.export(constants, &options, format, which).map_err(usage)?);
        }
        let solved = model.solve(&self.property_texts()?, &instances, &options);
        let solved = solved.map_err(usage)?;
        if !solved.rows.is_empty() {
            self.print_rows(&solved.rows, &[])?;
        }
        match solved.unanswered.is_empty() {
            true => Ok(()),
            false => Err(Unanswered(anyhow!(solved.unanswered.join("\n"))).into()),
        }
    }

    fn run_policy(&self) -> anyhow::Result<()> {
        let service = self.world.service(None)?;
        let lowered = service.lower()?;
        for loss in &lowered.losses {
            eprintln!("loss: {loss}");
        }
        let rows = lowered.solve().map_err(|error| Unanswered(error.into()))?;
        if self.csv {
            eprintln!("one unit of time is {:.3} ms", lowered.unit * 1e3);
            return self.print_rows(&rows, &lowered.losses);
        }
        // The search for better settings takes a hundred solves and more, so that it is made for a picture only.
        let better = match &self.svg {
            None => None,
            Some(picture) => Some(tuned(&service, &lowered, MORE_TIME, Some(picture))?),
        };
        let report = Report::new(
            service.name().to_owned(),
            &lowered,
            &rows,
            &service.as_retries()?,
            better.as_ref().map(|(search, found)| (search, found)),
        )?;
        print(&if self.json {
            report.json(&rows, &lowered.losses)
        } else {
            report.text()
        })
    }

    fn print_rows(&self, rows: &[Row], losses: &[String]) -> anyhow::Result<()> {
        print(&if self.json {
            answers::json(rows, losses)
        } else if self.csv {
            answers::csv(rows)
        } else {
            answers::text(rows)
        })
    }

    /// What is asked, and what a message calls it.
    fn property_texts(&self) -> anyhow::Result<Vec<(String, String)>> {
        let given = self
            .properties
            .iter()
            .map(|text| ("--prop".to_owned(), text.clone()));
        let mut texts: Vec<(String, String)> = given.collect();
        if let Some(path) = &self.property_file {
            let file = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the properties {}", path.display()))?;
            texts.push((path.display().to_string(), file));
        }
        Ok(texts)
    }
}

/// What the user has to give differently exits with 2.
fn usage(error: ModelFileError) -> anyhow::Error {
    match error.is_usage() {
        true => error.into(),
        false => Unanswered(error.into()).into(),
    }
}

/// MiB that the command takes beside its chains: the pages of the program, stacks, and what the allocator keeps for itself. An optimised build
/// takes about 10, one for tests with every feature 22.
const PROGRAM: u64 = 32;

/// The least limit that leaves something for a chain.
const LEAST_MEMORY: u64 = PROGRAM + 4;

fn mebibytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(value) if value >= LEAST_MEMORY => Ok(value),
        _ => Err(format!(
            "give a number of MiB, at least {LEAST_MEMORY}: the program itself takes up to {PROGRAM}"
        )),
    }
}

fn likelihood(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("give a probability above 0 and below 1, such as 1e-9".to_owned()),
    }
}

/// Many instances may be built at once; the line shows the last report of any of them.
fn show_progress(states: u64) {
    eprint!("\r{states} states … ");
}
