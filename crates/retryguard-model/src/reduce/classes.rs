//! Values of one variable that nothing tells apart.
//!
//! Two values are alike if every expression leaves the same residue for both, and every update leads from both to
//! values that are alike: the coarsest such partition is found by refinement, as for automata.

use rustc_hash::FxHashMap;

use super::signature::{Joint, Signature, Target, touching};
use crate::program::Program;

/// Ranges longer than this are left alone.
const MAX_VALUES: u64 = 100_000;
/// A counter whose every value differs by its distance to the end needs as many rounds as it has values.
const MAX_ROUNDS: usize = 80;

#[derive(Clone, Debug)]
pub(super) struct Classes {
    pub(super) variable: usize,
    low: i64,
    /// For each value the smallest one like it.
    representative: Vec<i64>,
    pub(super) before: usize,
    pub(super) after: usize,
}

impl Classes {
    pub(super) fn apply(&self, state: &mut [i64]) {
        let value = &mut state[self.variable];
        let place = usize::try_from(*value - self.low).expect("values are within their range");
        *value = self.representative[place];
    }
}

pub(super) fn find(program: &Program, joint: &Joint, skip: Option<usize>) -> Vec<Classes> {
    (0..program.variables.len())
        .filter(|variable| Some(*variable) != skip)
        .filter_map(|variable| of(program, joint, variable))
        .collect()
}

fn of(program: &Program, joint: &Joint, variable: usize) -> Option<Classes> {
    let declared = &program.variables[variable];
    let distance = declared.high.abs_diff(declared.low);
    if distance == 0 || distance >= MAX_VALUES {
        return None;
    }
    let commands = touching(joint, variable);
    // The residues with the targets taken out, and the targets.
    let mut shapes: FxHashMap<Signature, usize> = FxHashMap::default();
    let mut class: Vec<usize> = Vec::new();
    let mut targets: Vec<Vec<usize>> = Vec::new();
    for value in declared.low..=declared.high {
        let mut leads = Vec::new();
        let signature = shape(program, joint, &commands, variable, value, &mut leads);
        let known = shapes.len();
        class.push(*shapes.entry(signature).or_insert(known));
        targets.push(leads);
        // Counters that are compared with their every value show it early.
        if class.len() == 64 && shapes.len() == 64 && distance > 64 {
            return None;
        }
    }
    let mut count = shapes.len();
    for _ in 0..MAX_ROUNDS {
        if count == class.len() {
            return None;
        }
        let mut refined: FxHashMap<(usize, Vec<usize>), usize> = FxHashMap::default();
        let next: Vec<usize> = class
            .iter()
            .zip(&targets)
            .map(|(own, leads)| {
                let key = (*own, leads.iter().map(|to| class[*to]).collect());
                let known = refined.len();
                *refined.entry(key).or_insert(known)
            })
            .collect();
        let stable = refined.len() == count;
        count = refined.len();
        class = next;
        if stable {
            return Some(classes(variable, declared.low, &class, count));
        }
    }
    None
}

/// Whether no expression tells any two values of a counter apart.
pub(super) fn unread(program: &Program, joint: &Joint, variable: usize) -> bool {
    let declared = &program.variables[variable];
    if declared.boolean || declared.high.abs_diff(declared.low) >= MAX_VALUES {
        return false;
    }
    let commands = touching(joint, variable);
    let at = |value| shape(program, joint, &commands, variable, value, &mut Vec::new());
    let first = at(declared.low);
    // The ends differ most often: a guard that stops the counter there.
    at(declared.high) == first && (declared.low..declared.high).all(|value| at(value) == first)
}

/// What the program is at one value of a variable, without the values that it leads to, which are listed by their places.
fn shape(
    program: &Program,
    joint: &Joint,
    commands: &[usize],
    variable: usize,
    value: i64,
    leads: &mut Vec<usize>,
) -> Signature {
    let declared = &program.variables[variable];
    let mut signature = Signature::new(joint, commands, variable, value);
    signature.map_targets(|target| {
        Some(match target {
            Target::Value(to) if (declared.low..=declared.high).contains(to) => {
                leads.push(usize::try_from(to - declared.low).unwrap_or(0));
                Target::Value(0)
            }
            other => Target::Other(match other {
                Target::Value(to) => crate::expr::Expr::Int(*to),
                Target::Other(expr) => expr.clone(),
            }),
        })
    });
    signature
}

fn classes(variable: usize, low: i64, class: &[usize], count: usize) -> Classes {
    let mut first = vec![None; count];
    let representative = class
        .iter()
        .zip(low..)
        .map(|(class, value)| *first[*class].get_or_insert(value))
        .collect();
    Classes {
        variable,
        low,
        representative,
        before: class.len(),
        after: count,
    }
}
