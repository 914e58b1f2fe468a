//! A simulation as the command line asks for it: read, chosen from, run.

mod error;
mod tournament;

use std::path::{Path, PathBuf};

use retryguard_sim::{
    client_policy::{ClientPolicy, chosen},
    comparison::Plan,
    scenario::{Fleets, Scenario},
    streams::Seed,
};

pub use error::SimulationError;

use crate::{
    fleets,
    progress::Progress,
    scenario::{self, Storms},
    tournament as report,
};

/// How often [`Simulation::until`] repeats at most.
const MOST_REPLICATIONS: u32 = 1000;

/// What is to be simulated, and how often.
#[derive(Debug, Clone, Default)]
pub struct Simulation {
    /// The scenario file.
    pub file: PathBuf,
    /// Names or paths of the policies that are compared; those of the file where there is none.
    pub policies: Vec<String>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How often each policy is run; as the file says where this is `None`.
    pub replications: Option<u32>,
    /// Repeat until every difference of goodput is known to within this share.
    pub until: Option<f64>,
    /// Count the storms that last.
    pub storms: bool,
    /// The policy that the others are compared with.
    pub against: Option<String>,
    /// How many threads run; all cores where this is `None`.
    pub threads: Option<u16>,
    /// Worlds that are drawn at random.
    pub draw: Option<u32>,
    /// Whether the default policy is run with one part changed at a time.
    pub ablate: bool,
    /// How many units of work the draw, or the sweep, is divided into.
    pub units: Option<u32>,
    /// The unit that is run.
    pub unit: Option<u32>,
    /// The folder for results.
    pub out: Option<PathBuf>,
}

/// What came out.
pub enum Answer {
    /// A scenario.
    Scenario(Box<scenario::Outcome>, String),
    /// A file of fleets.
    Fleets(Box<fleets::Outcome>, String),
    /// How many storms lasted.
    Storms(Storms),
    /// The catalogue of worlds.
    Tournament(report::Result),
    /// Worlds that were drawn at random; an ablation is printed as differences.
    Draw(report::Draw, bool),
    /// A plan of units, or where a unit was written: a text and nothing else.
    Plain(String),
}

impl Answer {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Scenario(outcome, _) => outcome.text(),
            Self::Fleets(outcome, _) => outcome.text(),
            Self::Storms(storms) => storms.text(),
            Self::Tournament(result) => result.text(),
            Self::Draw(draw, true) => draw.differences(),
            Self::Draw(draw, false) => draw.text(),
            Self::Plain(text) => text.clone(),
        }
    }

    /// As one JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        match self {
            Self::Scenario(outcome, _) => outcome.json(),
            Self::Fleets(outcome, _) => outcome.json(),
            Self::Storms(storms) => storms.json(),
            Self::Tournament(result) => result.json(),
            Self::Draw(draw, _) => draw.json(),
            Self::Plain(text) => text.clone(),
        }
    }

    /// As comma-separated values, where there is such a form.
    #[must_use]
    pub fn csv(&self) -> String {
        match self {
            Self::Scenario(outcome, _) => outcome.csv(),
            Self::Fleets(outcome, _) => outcome.csv(),
            Self::Tournament(result) => result.csv(),
            Self::Draw(draw, _) => draw.csv(),
            Self::Storms(_) | Self::Plain(_) => self.text(),
        }
    }

    /// The files of a report with pictures: their names and texts.
    #[must_use]
    pub fn files(&self) -> Vec<(String, String)> {
        match self {
            Self::Scenario(outcome, path) => outcome.files(path),
            Self::Fleets(outcome, path) => outcome.files(path),
            Self::Tournament(result) => result.files(),
            Self::Draw(draw, _) => draw.files(),
            Self::Storms(_) | Self::Plain(_) => Vec::new(),
        }
    }
}

impl Simulation {
    /// Runs a scenario or a file of fleets. `tell` is called with every warning.
    ///
    /// # Errors
    /// Where the file cannot be used, or the wishes do not fit it.
    pub fn run(&self, tell: &mut dyn FnMut(String)) -> Result<Answer, SimulationError> {
        match Fleets::load(&self.file)? {
            Some(file) => self.fleets(file),
            None => self.world(tell),
        }
    }

    /// The threads that were asked for, or one for each core.
    #[must_use]
    pub fn threads(wanted: Option<u16>) -> usize {
        wanted.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        )
    }

    fn plan(&self, usual: u32) -> Result<Plan, SimulationError> {
        Ok(Plan {
            seed: Seed(self.seed),
            replications: self.replications(usual)?,
            threads: Self::threads(self.threads),
        })
    }

    fn replications(&self, usual: u32) -> Result<u32, SimulationError> {
        match self.replications.unwrap_or(usual) {
            0 => Err(SimulationError::NoReplications),
            several => Ok(several),
        }
    }

    /// A unit of the scenario's sweep, or the plan of all units.
    fn swept(&self, units: u32) -> Result<Answer, SimulationError> {
        if self.until.is_some() || self.storms || !self.policies.is_empty() {
            return Err(SimulationError::UnitsHaveNone);
        }
        let (mut scenario, texts) = Scenario::load_texts(&self.file)?;
        if scenario.sweep.is_none() {
            return Err(SimulationError::NoSweep);
        }
        self.choose(&mut scenario, &mut |_| ())?;
        let plan = self.plan(scenario.replications)?;
        let all = scenario::Swept {
            scenario: &scenario,
            texts: &texts,
            path: shown(&self.file),
            against: self.against.as_deref(),
            units,
        };
        if !(1..=all.worlds()).contains(&units) {
            return Err(SimulationError::Units(units, all.worlds()));
        }
        let (Some(unit), Some(folder)) = (self.unit, &self.out) else {
            return Ok(Answer::Plain(all.text(plan.replications)));
        };
        if unit >= units {
            return Err(SimulationError::Unit(unit, units - 1));
        }
        let runs = all.worlds_of(unit).len() * scenario.policies.len() * plan.replications as usize;
        let text = with_bar(runs, |step| all.run(unit, &plan, step));
        tournament::store(folder, &all.file(unit), &text)
    }

    fn world(&self, tell: &mut dyn FnMut(String)) -> Result<Answer, SimulationError> {
        if let Some(units) = self.units {
            return self.swept(units);
        }
        let mut scenario = Scenario::load(&self.file)?;
        self.choose(&mut scenario, tell)?;
        if self.storms {
            return self.count_storms(&scenario);
        }
        let mut outcome = match self.until {
            None => {
                let plan = self.plan(scenario.replications)?;
                with_bar(scenario::runs(&scenario, &plan), |step| {
                    scenario::run(scenario, &plan, step)
                })
            }
            Some(_) if scenario.sweep.is_some() => return Err(SimulationError::SweepUntil),
            Some(share) => {
                let plan = self.plan(MOST_REPLICATIONS)?;
                with_bar(scenario::runs(&scenario, &plan), |step| {
                    scenario::run_until(scenario, &plan, share, step)
                })
            }
        };
        if let Some(name) = &self.against {
            outcome = outcome.against(name.clone());
        }
        Ok(Answer::Scenario(Box::new(outcome), shown(&self.file)))
    }

    /// Replaces the policies of the scenario by those that were named.
    fn choose(&self, scenario: &mut Scenario, tell: &mut dyn FnMut(String)) -> Result<(), SimulationError> {
        if !self.policies.is_empty() {
            let own: Vec<ClientPolicy> = scenario.policies.iter().chain(&scenario.fixed).cloned().collect();
            scenario.policies = chosen(&self.policies, &own, tell)?;
            let services: Vec<&str> = scenario
                .world
                .services
                .iter()
                .map(|it| it.name.as_str())
                .collect();
            for unmatched in scenario.policies.iter().filter_map(|it| it.unmatched(&services)) {
                tell(format!("warning: {unmatched}"));
            }
        }
        let known = || scenario.policies.iter().map(|it| it.name.clone());
        match &self.against {
            Some(name) if known().all(|it| it != *name) => Err(SimulationError::Against {
                name: name.clone(),
                known: known().collect(),
            }),
            _ => Ok(()),
        }
    }

    fn count_storms(&self, scenario: &Scenario) -> Result<Answer, SimulationError> {
        if scenario.sweep.is_some() {
            return Err(SimulationError::SweepStorms);
        }
        let plan = self.plan(scenario.replications)?;
        let found = with_bar(scenario::runs(scenario, &plan), |step| {
            Storms::count(scenario, &plan, step)
        });
        found.map(Answer::Storms).ok_or(SimulationError::NoFaults)
    }

    fn fleets(&self, mut file: Fleets) -> Result<Answer, SimulationError> {
        if self.until.is_some() || self.against.is_some() || self.storms {
            return Err(SimulationError::FleetsHaveNone);
        }
        if self.units.is_some() {
            return Err(SimulationError::NoSweep);
        }
        if !self.policies.is_empty() {
            let known: Vec<String> = file.fleets.iter().map(|it| it.name.clone()).collect();
            file.choose(&self.policies)
                .map_err(|unknown| SimulationError::NoFleet {
                    name: unknown.to_owned(),
                    known,
                })?;
        }
        let replications = self.replications(file.replications)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(Self::threads(self.threads))
            .build()?;
        let outcome = with_bar(file.fleets.len() * replications as usize, |step| {
            pool.install(|| fleets::run(file, self.seed, replications, step))
        });
        Ok(Answer::Fleets(Box::new(outcome), shown(&self.file)))
    }
}

/// Runs with a bar for so many runs.
fn with_bar<T>(runs: usize, run: impl FnOnce(&(dyn Fn() + Sync)) -> T) -> T {
    let progress = Progress::new(runs);
    let found = run(&|| progress.step());
    progress.finish();
    found
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
