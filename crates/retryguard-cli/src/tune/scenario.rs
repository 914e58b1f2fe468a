//! `retryguard tune --scenario`: the search in a simulated world.

use std::path::Path;

use anyhow::anyhow;
use retryguard_report::{progress::Progress, simulate::Simulation};
use retryguard_sim::{
    scenario::{Fleets, Scenario},
    streams::Seed,
};
use retryguard_translate::PolicyFile;
use retryguard_tune::world::{Effort, Start, improve};

use super::Tune;
use crate::{
    modelled::Wrong,
    output::{self, save},
};

impl Tune {
    /// Searches in the world of a scenario.
    pub(super) fn in_world(&self, path: &Path) -> anyhow::Result<()> {
        let scenario = world(path).map_err(Wrong)?;
        let beside = self
            .judge_in
            .iter()
            .map(|path| world(path))
            .collect::<anyhow::Result<Vec<_>>>()
            .map_err(Wrong)?;
        let text = match &self.world.policy {
            Some(path) => PolicyFile::read(path).map_err(|error| Wrong(error.into()))?.text,
            None => String::new(),
        };
        let effort = Effort {
            seed: Seed(self.seed),
            candidates: self.candidates,
            replications: self.replications,
            held_out: self.held_out,
            within: self.within,
            threads: Simulation::threads(self.threads),
        };
        let start = Start {
            text: &text,
            service: self.world.service.as_deref(),
        };
        let progress = Progress::unbounded();
        let found = improve(&scenario, start, &beside, &effort, &|| progress.step());
        progress.finish();
        let found = found.map_err(|problem| Wrong(anyhow!("{problem}")))?;
        if let Some(path) = &self.svg {
            save(path, &found.svg())?;
        }
        if let Some(path) = &self.out {
            save(path, &found.file())?;
        }
        output::print(&if self.json {
            found.json()
        } else {
            found.text(self.out.is_none())
        })
    }
}

/// A scenario with one world.
fn world(path: &Path) -> anyhow::Result<Scenario> {
    if Fleets::load(path).is_ok_and(|fleets| fleets.is_some()) {
        return Err(anyhow!(
            "{}: a file of `fleets` has no policy to tune; give a scenario with `services` and `clients`",
            path.display()
        ));
    }
    let scenario = Scenario::load(path)?;
    if scenario.sweep.is_some() {
        return Err(anyhow!(
            "{}: the scenario has a `sweep`, and a policy is tuned in one world; remove the `sweep`, or write the world \
             with the value that matters into a file with `base`",
            path.display()
        ));
    }
    Ok(scenario)
}
