//! The range of one variable in runs of values within which the program says the same.
//!
//! A range is halved until each part is proven to be one run ([`Within`]) or is a single value, so that the cost grows with the number of
//! places where something changes, and hardly with the length of the range.

use super::signature::{Assignments, Joint, JointCommand, Residue, Target};
use crate::expr::{Expr, Within};
use crate::program::Program;

/// More runs than this are not kept: hardly any two values are alike.
const MAX_RUNS: usize = 100_000;
/// A range of up to so many values may be looked at one by one.
const SHORT: u64 = 100_000;
/// In a longer one, so many runs must be enough.
const MAX_RUNS_OF_LONG: usize = 4_096;

/// Values next to each other that differ at most in where the variable goes from them.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) shape: Shape,
    /// Where the alternatives lead that stay within the range of the variable.
    pub(super) leads: Vec<Lead>,
    /// Whether those are all: none sets the variable to what other variables say, or to a value beyond its range.
    pub(super) closed: bool,
}

impl Run {
    /// Whether `other`, of one value or more, does what this run of two values or more does.
    pub(super) fn continues(&self, other: &Run) -> bool {
        self.shape == other.shape
            && self.leads.iter().zip(&other.leads).all(|(a, b)| {
                [other.first, other.last]
                    .into_iter()
                    .all(|value| a.from(value) == b.from(value))
            })
    }
}

/// What becomes of the variable, for every value of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    To(i64),
    By(i64),
}

impl Lead {
    pub(super) fn from(self, value: i64) -> i64 {
        match self {
            Lead::To(target) => target,
            Lead::By(shift) => value + shift,
        }
    }
}

/// What is left of the program at some value, without the targets within the range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    commands: Vec<Residue>,
    observed: Vec<Vec<Expr>>,
}

/// One variable of a program, and the commands that read or assign it.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) program: &'p Program,
    pub(super) joint: &'p Joint,
    pub(super) commands: &'p [usize],
    pub(super) variable: usize,
}

/// The runs of the whole range from its least value on; `None` where there are too many, or `give_up` says so after some run.
pub(super) fn find(place: Place<'_>, mut give_up: impl FnMut(&[Run]) -> bool) -> Option<Vec<Run>> {
    let declared = &place.program.variables[place.variable];
    let limit = match declared.high.abs_diff(declared.low) < SHORT {
        true => MAX_RUNS,
        false => MAX_RUNS_OF_LONG,
    };
    let mut runs = Vec::new();
    let mut open = vec![(declared.low, declared.high)];
    while let Some((low, high)) = open.pop() {
        if let Some(run) = place.run(low, high) {
            runs.push(run);
            if runs.len() > limit || give_up(&runs) {
                return None;
            }
        } else {
            let middle = low + (high - low) / 2;
            open.push((middle + 1, high));
            open.push((low, middle));
        }
    }
    Some(runs)
}

impl Place<'_> {
    /// The values from `low` to `high` as one run, if that is proven; one value always is.
    pub(super) fn run(&self, low: i64, high: i64) -> Option<Run> {
        let range = Within {
            variable: self.variable,
            low,
            high,
        };
        if low != high && !self.even(range) {
            return None;
        }
        let (shape, targets) = self.at(low);
        let leads = if low == high {
            targets.into_iter().map(Lead::To).collect()
        } else {
            // A target that is the same at both ends is a constant, and moves with the variable otherwise: nothing else is even.
            let (same, others) = self.at(high);
            if same != shape || others.len() != targets.len() {
                return None;
            }
            let pairs = targets.into_iter().zip(others);
            pairs
                .map(|(a, b)| match a == b {
                    true => Lead::To(a),
                    false => Lead::By(a - low),
                })
                .collect()
        };
        let targets = shape.commands.iter().flat_map(|residue| &residue.alternatives);
        let closed = targets
            .map(|(_, _, target)| target)
            .all(|target| matches!(target, Target::Value(_)));
        Some(Run {
            first: low,
            last: high,
            shape,
            leads,
            closed,
        })
    }

    /// Whether every expression leaves the same for all values of the range, and the variable is kept, shifted or set to one value.
    fn even(&self, range: Within) -> bool {
        let settled = |parts: &[Expr]| parts.iter().all(|part| range.settles(part));
        let command = |command: &JointCommand| {
            command.guard.iter().any(|part| range.always(part, false))
                || (settled(&command.guard)
                    && settled(&command.rewards)
                    && command.alternatives.iter().all(|alternative| {
                        settled(&alternative.rate) && self.moves_evenly(range, &alternative.assignments)
                    }))
        };
        self.joint.observed.iter().all(|parts| settled(parts))
            && self
                .commands
                .iter()
                .all(|place| command(&self.joint.commands[*place]))
    }

    fn moves_evenly(&self, range: Within, assignments: &Assignments) -> bool {
        let declared = &self.program.variables[self.variable];
        let inside = |value: i64| (declared.low..=declared.high).contains(&value);
        assignments.iter().all(|(assigned, value)| {
            range.settles(value)
                || (*assigned == self.variable
                    && range
                        .shift(value)
                        .is_some_and(|shift| inside(range.low + shift) && inside(range.high + shift)))
        })
    }

    /// What is left at one value, and the targets within the range, in the order of what they belong to.
    fn at(&self, value: i64) -> (Shape, Vec<i64>) {
        let declared = &self.program.variables[self.variable];
        let mut commands: Vec<(Residue, Vec<i64>)> = self
            .commands
            .iter()
            .filter_map(|place| Residue::new(&self.joint.commands[*place], self.variable, value))
            .map(|mut residue| {
                let mut leads = Vec::new();
                for (_, _, target) in &mut residue.alternatives {
                    *target = match std::mem::replace(target, Target::Value(0)) {
                        Target::Value(to) if (declared.low..=declared.high).contains(&to) => {
                            leads.push(to);
                            Target::Value(0)
                        }
                        Target::Value(to) => Target::Other(Expr::Int(to)),
                        other => other,
                    };
                }
                (residue, leads)
            })
            .collect();
        // The targets take no part in the order: for each value they follow the same residues.
        commands.sort_by(|a, b| a.0.cmp(&b.0));
        let (commands, leads): (Vec<Residue>, Vec<Vec<i64>>) = commands.into_iter().unzip();
        let observed = self.joint.observed_at(self.variable, value);
        (Shape { commands, observed }, leads.concat())
    }
}
