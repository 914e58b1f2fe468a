//! Every known policy in many worlds, at once or in units of work.

use std::{fs, path::Path};

use retryguard_sim::{
    client_policy::{ClientPolicy, chosen, named},
    draw::{MOST_WORLDS, ablations},
    tournament::{ORACLE, policies},
};

use super::{Answer, Simulation, SimulationError, report, with_bar};
use crate::{scenario, units};

impl Simulation {
    /// Runs the tournament, or a draw of worlds, or one unit of a draw.
    ///
    /// # Errors
    /// Where the wishes do not fit each other, or a file cannot be written.
    pub fn tournament(&self, tell: &mut dyn FnMut(String)) -> Result<Answer, SimulationError> {
        if self.until.is_some() || self.against.is_some() || self.storms {
            return Err(SimulationError::TournamentHasNone);
        }
        let mut client_policies = if self.ablate {
            ablations()
        } else if self.policies.is_empty() {
            policies()
        } else {
            chosen(&self.policies, &[], tell)?
        };
        if client_policies
            .iter()
            .all(|client_policy| client_policy.name != ORACLE)
        {
            client_policies.extend(named(ORACLE));
        }
        let plan = self.plan(1)?;
        let Some(count) = self.draw else {
            if self.units.is_some() {
                return Err(SimulationError::UnitsOfDraw);
            }
            let result = with_bar(report::runs(&client_policies, &plan), |step| {
                report::run(&client_policies, &plan, step)
            });
            return Ok(Answer::Tournament(result));
        };
        if !(1..=MOST_WORLDS).contains(&count) {
            return Err(SimulationError::Worlds(count));
        }
        if let Some(units) = self.units {
            return self.unit(units, count, &client_policies);
        }
        let runs = count as usize * client_policies.len() * plan.replications as usize;
        let draw = with_bar(runs, |step| report::draw(&client_policies, &plan, count, step));
        Ok(Answer::Draw(draw, self.ablate))
    }

    /// Runs the unit that is asked for and writes its file, or gives the plan.
    fn unit(
        &self,
        units: u32,
        worlds: u32,
        client_policies: &[ClientPolicy],
    ) -> Result<Answer, SimulationError> {
        if !(1..=worlds).contains(&units) {
            return Err(SimulationError::Units(units, worlds));
        }
        let plan = self.plan(1)?;
        let all = report::Units {
            worlds,
            units,
            ablation: self.ablate,
        };
        let (Some(unit), Some(folder)) = (self.unit, &self.out) else {
            return Ok(Answer::Plain(all.text(client_policies.len(), plan.replications)));
        };
        if unit >= units {
            return Err(SimulationError::Unit(unit, units - 1));
        }
        let runs = all.worlds_of(unit).len() * client_policies.len() * plan.replications as usize;
        let text = with_bar(runs, |step| all.run(unit, client_policies, &plan, step));
        store(folder, &all.file(unit), &text)
    }

    /// Joins the units in a folder.
    ///
    /// # Errors
    /// Where a file cannot be read or the units do not belong together.
    pub fn merge(folder: &Path) -> Result<Answer, SimulationError> {
        let no_folder = |error| SimulationError::File("read the folder", folder.to_owned(), error);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(no_folder)? {
            let path = entry.map_err(no_folder)?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with("unit-") && name.ends_with(".json") {
                let text = fs::read_to_string(&path)
                    .map_err(|error| SimulationError::File("read", path.clone(), error))?;
                files.push((name, text));
            }
        }
        files.sort();
        let wrong = |told| SimulationError::Merge(folder.to_owned(), told);
        let all = units::collected(&files).map_err(wrong)?;
        if scenario::is_sweep(&all.plan) {
            let (outcome, path) = scenario::merge(&all).map_err(wrong)?;
            return Ok(Answer::Scenario(Box::new(outcome), path));
        }
        let (draw, ablation) = report::merge(&all).map_err(wrong)?;
        Ok(Answer::Draw(draw, ablation))
    }
}

/// Writes a file whole or not at all, so that a unit that is killed leaves nothing that looks like a result.
pub(super) fn store(folder: &Path, name: &str, text: &str) -> Result<Answer, SimulationError> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .map_err(|error| SimulationError::File("make the folder", folder.to_owned(), error))?;
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, &path))
        .map_err(|error| SimulationError::File("write", path.clone(), error))?;
    Ok(Answer::Plain(format!("wrote {}\n", path.display())))
}
