//! Values of one variable that nothing tells apart.
//!
//! Two values are alike if every expression leaves the same residue for both, and every update leads from both to
//! values that are alike: the coarsest such partition is found by refinement, as for automata. The states of the automaton are whole runs
//! of values ([`runs`]), which are split where an update leads to values that are no longer alike.

use rustc_hash::FxHashMap;

use super::runs::{self, Lead, Place, Run, Shape};
use super::signature::{Joint, touching};
use crate::program::Program;

/// A counter whose every value differs by its distance to the end needs as many rounds as it has values.
const MAX_ROUNDS: usize = 80;
/// So many parts, of so many values each on average, are found by a table.
const MANY: usize = 256;
const LENGTH: u64 = 16;

#[derive(Clone, Debug)]
pub(super) struct Classes {
    pub(super) variable: usize,
    /// Where each part begins, in order, and the smallest value that is like those of the part.
    parts: Vec<(i64, i64)>,
    pub(super) before: u64,
    pub(super) after: usize,
}

impl Classes {
    pub(super) fn apply(&self, state: &mut [i64]) {
        let value = &mut state[self.variable];
        let part = self.parts.partition_point(|(first, _)| first <= value);
        *value = self.parts[part - 1].1;
    }
}

pub(super) fn find(program: &Program, joint: &Joint, skip: Option<usize>) -> Vec<Classes> {
    (0..program.variables.len())
        .filter(|variable| Some(*variable) != skip)
        .filter_map(|variable| of(program, joint, variable))
        .collect()
}

/// Values next to each other that are alike as far as is known.
#[derive(Clone, Copy)]
struct Part {
    first: i64,
    last: i64,
    /// The run that it is in.
    run: usize,
    class: usize,
}

fn of(program: &Program, joint: &Joint, variable: usize) -> Option<Classes> {
    let declared = &program.variables[variable];
    let distance = declared.high.abs_diff(declared.low);
    if distance == 0 {
        return None;
    }
    let commands = touching(joint, variable);
    let place = Place {
        program,
        joint,
        commands: &commands,
        variable,
    };
    let mut shapes: FxHashMap<Shape, usize> = FxHashMap::default();
    let mut class: Vec<usize> = Vec::new();
    let runs = runs::find(place, |runs| {
        let known = shapes.len();
        let Some(run) = runs.last() else { return false };
        class.push(match shapes.get(&run.shape) {
            Some(class) => *class,
            None => *shapes.entry(run.shape.clone()).or_insert(known),
        });
        // Counters that are compared with their every value show it early.
        distance > 64 && class.len() == 64 && shapes.len() == 64 && run.last - declared.low == 63
    })?;
    let mut parts: Vec<Part> = runs
        .iter()
        .zip(class)
        .enumerate()
        .map(|(place, (run, class))| Part {
            first: run.first,
            last: run.last,
            run: place,
            class,
        })
        .collect();
    let mut count = shapes.len();
    for _ in 0..MAX_ROUNDS {
        if u64::try_from(count).is_ok_and(|count| count == distance + 1) {
            return None;
        }
        let next = refined(&runs, &parts);
        let classes = next.iter().map(|part| part.class + 1).max().unwrap_or(0);
        let stable = classes == count;
        count = classes;
        parts = next;
        if stable {
            return Some(classes_of(variable, &parts, count));
        }
    }
    None
}

/// The parts in smaller pieces, each of which leads to one class by each of its updates.
fn refined(runs: &[Run], parts: &[Part]) -> Vec<Part> {
    let low = parts[0].first;
    let table = table(parts);
    let part_of = |value: i64| match usize::try_from(value - low) {
        Ok(place) if place < table.len() => table[place],
        _ => parts.partition_point(|part| part.first <= value) - 1,
    };
    let mut known: FxHashMap<(usize, Vec<usize>), usize> = FxHashMap::default();
    let mut next: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        let leads = &runs[part.run].leads;
        let mut first = part.first;
        while first <= part.last {
            // As far as every lead stays in the part that it leads to from here.
            let mut last = part.last;
            let mut classes = Vec::with_capacity(leads.len());
            for lead in leads {
                let target = &parts[part_of(lead.from(first))];
                classes.push(target.class);
                if let Lead::By(shift) = lead {
                    last = last.min(target.last - shift);
                }
            }
            let number = known.len();
            let class = *known.entry((part.class, classes)).or_insert(number);
            match next.last_mut() {
                Some(before) if before.run == part.run && before.class == class => before.last = last,
                _ => next.push(Part {
                    first,
                    last,
                    run: part.run,
                    class,
                }),
            }
            first = last + 1;
        }
    }
    next
}

/// The place of the part of each value, where the parts are many and short; otherwise they are quickly searched.
fn table(parts: &[Part]) -> Vec<usize> {
    let values = parts[parts.len() - 1].last.abs_diff(parts[0].first) + 1;
    if parts.len() < MANY || values > LENGTH * parts.len() as u64 {
        return Vec::new();
    }
    let places = parts.iter().enumerate();
    places
        .flat_map(|(place, part)| (part.first..=part.last).map(move |_| place))
        .collect()
}

/// Whether no expression tells any two values of a counter apart.
pub(super) fn unread(program: &Program, joint: &Joint, variable: usize) -> bool {
    if program.variables[variable].boolean {
        return false;
    }
    let commands = touching(joint, variable);
    let place = Place {
        program,
        joint,
        commands: &commands,
        variable,
    };
    let declared = &program.variables[variable];
    let end = |value| place.run(value, value).map(|run| run.shape);
    // The ends differ most often: a guard that stops the counter there.
    end(declared.low) == end(declared.high)
        && runs::find(place, |runs| {
            runs.first().map(|run| &run.shape) != runs.last().map(|run| &run.shape)
        })
        .is_some()
}

fn classes_of(variable: usize, parts: &[Part], count: usize) -> Classes {
    let mut first = vec![None; count];
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for part in parts {
        let like = *first[part.class].get_or_insert(part.first);
        if merged.last().is_none_or(|(_, before)| *before != like) {
            merged.push((part.first, like));
        }
    }
    let (low, high) = (parts[0].first, parts[parts.len() - 1].last);
    Classes {
        variable,
        parts: merged,
        before: high.abs_diff(low) + 1,
        after: count,
    }
}
