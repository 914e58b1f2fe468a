//! Exact reductions, found in the text of the model.
//!
//! Each replaces a state by one that no question asked can tell from it, so the answers do not change:
//!
//! - [`classes`]: values of one variable that every expression treats alike (a counter beyond the last comparison);
//! - [`dead`]: a variable that nothing will read before it is written again (the index of a timer that is idle);
//! - [`symmetry`]: copies of a module that can be exchanged (clients of one service);
//! - [`levels`]: a counter that only rises and is treated alike at every height (requests served): one level is
//!   built and factorised, and serves for all.

mod classes;
mod dead;
mod levels;
mod signature;
mod symmetry;

use crate::build::Wanted;
use crate::program::Program;

pub(crate) use levels::Level;

/// What to do to every state, and what was found, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reduction {
    classes: Vec<classes::Classes>,
    dead: Vec<dead::Dead>,
    orbits: Vec<symmetry::Orbit>,
    pub(crate) level: Option<Level>,
    pub(crate) notes: Vec<String>,
}

impl Reduction {
    /// Everything that can be found without building a state.
    pub(crate) fn find(program: &Program, wanted: &Wanted, with_levels: bool) -> Reduction {
        let joint = signature::Joint::new(program, wanted);
        let Some(joint) = joint else {
            return Reduction::default();
        };
        let level = if with_levels {
            levels::find(program, &joint)
        } else {
            None
        };
        let skip = level.as_ref().map(|level| level.variable);
        let classes = classes::find(program, &joint, skip);
        // A variable of which one value is left needs no second reason.
        let settled: Vec<usize> = classes
            .iter()
            .filter(|c| c.after == 1)
            .map(|c| c.variable)
            .collect();
        let mut dead = dead::find(program, &joint, skip);
        dead.retain(|found| !settled.contains(&found.variable));
        let orbits = symmetry::find(program, &joint, skip);
        let name = |variable: usize| program.variables[variable].name.as_str();
        let mut notes = Vec::new();
        if let Some(level) = &level {
            notes.push(format!(
                "{} only rises: {} levels, {} distinct",
                name(level.variable),
                level.levels(),
                level.distinct()
            ));
        }
        for found in &classes {
            notes.push(format!(
                "{}: {} values behave as {}",
                name(found.variable),
                found.before,
                found.after
            ));
        }
        for variable in 0..program.variables.len() {
            let controls: Vec<&str> = dead
                .iter()
                .filter(|found| found.variable == variable)
                .map(|found| name(found.control))
                .collect();
            if !controls.is_empty() {
                let controls = controls.join(" or ");
                notes.push(format!(
                    "{} is forgotten while {controls} makes it irrelevant",
                    name(variable)
                ));
            }
        }
        for orbit in &orbits {
            notes.push(format!("{} interchangeable modules", orbit.copies()));
        }
        Reduction {
            classes,
            dead,
            orbits,
            level,
            notes,
        }
    }

    /// The reductions without the levels, for questions that need every state.
    pub(crate) fn without_levels(program: &Program, wanted: &Wanted) -> Reduction {
        Reduction::find(program, wanted, false)
    }

    pub(crate) fn normalise(&self, state: &mut [i64]) {
        for classes in &self.classes {
            classes.apply(state);
        }
        for dead in &self.dead {
            dead.apply(state);
        }
        for orbit in &self.orbits {
            orbit.apply(state);
        }
    }
}
