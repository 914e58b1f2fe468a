//! `retryguard tune --scenario`: the search in a simulated world.

use std::path::Path;

use retryguard_report::{progress::Progress, simulate::Simulation};
use retryguard_sim::streams::Seed;
use retryguard_translate::PolicyFile;
use retryguard_tune::world::{Effort, Start, improve, load};

use super::Tune;
use crate::output::{self, save};

impl Tune {
    /// Searches in the world of a scenario.
    pub(super) fn in_world(&self, path: &Path) -> anyhow::Result<()> {
        let scenario = load(path)?;
        let beside = self
            .judge_in
            .iter()
            .map(|path| load(path))
            .collect::<Result<Vec<_>, _>>()?;
        let text = match &self.world.policy {
            Some(path) => PolicyFile::read(path)?.text,
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
        let found = found?;
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
