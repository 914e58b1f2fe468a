//! Exact reductions, found in the text of the model.
//!
//! Each replaces a state by one that no question asked can tell from it, so the answers do not change:
//!
//! - [`classes`]: values of one variable that every expression treats alike (a counter beyond the last comparison);
//! - [`dead`]: a variable that nothing will read before it is written again (the index of a timer that is idle);
//! - [`symmetry`]: copies of a module that can be exchanged (clients of one service);
//! - [`levels`]: a counter that only rises and is treated alike at every height (requests served): one level is
//!   built and factorised, and serves for all.
//!
//! Before them the model is put in other words ([`reword`]): without what nothing depends on, and with counters that rise instead of fall.
//!
//! One more is not exact but proven to change no digit: [`unreached`], counters whose end is out of reach.

mod classes;
mod dead;
mod levels;
mod ranges;
mod reword;
mod runs;
mod signature;
mod symmetry;
mod unreached;

use crate::chain::{Chain, Level};
use crate::program::Program;
use crate::wanted::Wanted;

pub(crate) use reword::reworded;
pub(crate) use unreached::{Step, Unreached};

/// A variable of which so few values are left is reduced enough.
const FEW: usize = 64;

/// What to do to every state, and what was found, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reduction {
    classes: Vec<classes::Classes>,
    dead: Vec<dead::Dead>,
    orbits: Vec<symmetry::Orbit>,
    pub(crate) level: Option<Level>,
    /// To be confirmed on the chain that is built.
    pub(crate) unreached: Vec<Unreached>,
    pub(crate) notes: Vec<String>,
}

impl Reduction {
    /// Everything that can be found without building a state.
    pub(crate) fn find(program: &Program, wanted: &Wanted, with_levels: bool) -> Reduction {
        let Some(mut joint) = signature::Joint::new(program, wanted) else {
            return Reduction::default();
        };
        let program = &ranges::narrow(program, &mut joint);
        let level = match with_levels {
            true => levels::find(program, &joint, &[]),
            false => None,
        };
        Reduction::beside(program, &joint, level)
    }

    /// With the levels of a counter that decides the question, where there is another one that only rises and whose end may be out of reach:
    /// if that is proven, its values are one value, which is far better than levels. `None` where there are no two such counters.
    pub(crate) fn with_end_out_of_reach(program: &Program, wanted: &Wanted) -> Option<Reduction> {
        let mut joint = signature::Joint::new(program, wanted)?;
        let program = &ranges::narrow(program, &mut joint);
        let decides = |variable: usize| joint.stop.as_ref().is_some_and(|stop| stop.reads(variable));
        let ends: Vec<usize> = unreached::find(program, &joint, decides)
            .iter()
            .map(|end| end.variable)
            .filter(|variable| levels::possible(program, &joint, *variable))
            .collect();
        if ends.is_empty() {
            return None;
        }
        let level = levels::find(program, &joint, &ends)?;
        let reduction = Reduction::beside(program, &joint, Some(level));
        let taken = |end: &usize| reduction.unreached.iter().any(|found| found.variable == *end);
        ends.iter().all(taken).then_some(reduction)
    }

    /// All others beside the levels that were chosen.
    fn beside(program: &Program, joint: &signature::Joint, level: Option<Level>) -> Reduction {
        let skip = level.as_ref().map(|level| level.variable);
        let mut classes = classes::find(program, joint, skip);
        let few = |variable: usize| {
            let known = classes.iter().find(|found| found.variable == variable);
            known.is_some_and(|found| found.after <= FEW)
        };
        let unreached = unreached::find(program, joint, |variable| Some(variable) == skip || few(variable));
        classes.retain(|found| unreached.iter().all(|end| end.variable != found.variable));
        // A variable of which one value is left needs no second reason.
        let settled: Vec<usize> = classes
            .iter()
            .filter(|c| c.after == 1)
            .map(|c| c.variable)
            .collect();
        let mut dead = dead::find(program, joint, skip);
        dead.retain(|found| !settled.contains(&found.variable));
        let orbits = symmetry::find(program, joint, skip);
        let name = |variable: usize| program.variables[variable].name.as_str();
        let mut notes = Vec::new();
        if let Some(level) = &level {
            notes.push(format!(
                "{} only {}: {} levels, {} distinct",
                name(level.variable),
                match program.variables[level.variable].mirrored {
                    true => "falls",
                    false => "rises",
                },
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
            unreached,
            notes,
        }
    }

    /// The reductions that are exact by the text alone.
    pub(crate) fn exact(mut self) -> Reduction {
        self.unreached.clear();
        self
    }

    /// Whether the ends of counters are proven to be out of reach on the chain that was built; the notes then say so. Otherwise the
    /// counters without a proof are left out, for the chain to be built again.
    pub(crate) fn confirm(&mut self, program: &Program, chain: &Chain) -> bool {
        let all = std::mem::take(&mut self.unreached);
        let count = all.len();
        let mut notes = Vec::new();
        for (end, rises) in all.into_iter().zip(&chain.rises) {
            let Some(exponent) = end.proven(chain, rises) else {
                continue;
            };
            let variable = &program.variables[end.variable];
            let name = variable.name.as_str();
            let moves = if variable.mirrored { "falls" } else { "rises" };
            let chance = match exponent.is_finite() {
                true => format!(
                    "each time it {moves}, it gets to {} with a probability below 1e{:.0}",
                    variable.written(end.last + 1),
                    exponent.ceil()
                ),
                false => format!("it never {moves}"),
            };
            notes.push(format!(
                "{name}: the values from {} to {} are taken as one; {chance}",
                variable.written(end.first),
                variable.written(end.last)
            ));
            self.unreached.push(end);
        }
        let proven = self.unreached.len() == count;
        if proven {
            self.notes.extend(notes);
        }
        proven
    }

    /// The reductions without the levels, for questions that need every state.
    pub(crate) fn without_levels(program: &Program, wanted: &Wanted) -> Reduction {
        Reduction::find(program, wanted, false)
    }

    pub(crate) fn normalise(&self, state: &mut [i64]) {
        for classes in &self.classes {
            classes.apply(state);
        }
        for end in &self.unreached {
            end.apply(state);
        }
        for dead in &self.dead {
            dead.apply(state);
        }
        for orbit in &self.orbits {
            orbit.apply(state);
        }
    }
}
