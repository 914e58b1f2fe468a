//! A counter that only rises, and is treated alike at every height.
//!
//! The states of one height form a block. Where the residues of the program agree for two heights, updates of the counter
//! written as differences, the blocks are equal, and one of them stands for all.

use rustc_hash::FxHashMap;

use super::classes;
use super::signature::{Joint, Signature, Target, touching};
use crate::chain::Level;
use crate::expr::Expr;
use crate::program::Program;

/// Counters longer than this are left alone: every height is solved once.
const MAX_LEVELS: u64 = 1_000_000;

/// The counter that saves most, of all but those to `spare`.
pub(super) fn find(program: &Program, joint: &Joint, spare: &[usize]) -> Option<Level> {
    // Without a place to stop, every height is part of the question.
    joint.stop.as_ref()?;
    if program.init.is_some() {
        return None;
    }
    (0..program.variables.len())
        .filter(|variable| !spare.contains(variable))
        // A counter that nothing reads is forgotten instead: its every height would be solved for nothing.
        .filter(|variable| !classes::unread(program, joint, *variable))
        .filter_map(|variable| of(program, joint, variable))
        .max_by_key(|level| level.levels() / level.distinct())
        .filter(|level| level.levels() >= 2 * level.distinct())
}

fn of(program: &Program, joint: &Joint, variable: usize) -> Option<Level> {
    if !possible(program, joint, variable) {
        return None;
    }
    let declared = &program.variables[variable];
    let commands = touching(joint, variable);
    let mut known: FxHashMap<Option<Signature>, u32> = FxHashMap::default();
    let mut class = Vec::new();
    let mut representatives = Vec::new();
    let mut rises: Vec<Vec<u32>> = Vec::new();
    for height in declared.init..=declared.high {
        let mut found = Vec::new();
        let signature = if stops(joint, variable, height) {
            None
        } else {
            Some(rising(
                joint,
                &commands,
                variable,
                height,
                declared.high,
                &mut found,
            )?)
        };
        let next = u32::try_from(known.len()).ok()?;
        let number = *known.entry(signature).or_insert(next);
        if number == next {
            representatives.push(height);
            rises.push(found);
        }
        class.push(number);
    }
    let mut above: FxHashMap<(u32, u32), Vec<u32>> = FxHashMap::default();
    for (place, number) in class.iter().enumerate() {
        for rise in &rises[*number as usize] {
            let Some(entered) = class.get(place + *rise as usize) else {
                continue;
            };
            let blocks = above.entry((*number, *rise)).or_default();
            if !blocks.contains(entered) {
                blocks.push(*entered);
            }
        }
    }
    Some(Level {
        variable,
        bottom: declared.init,
        class,
        representatives,
        above,
    })
}

/// At a glance: a counter is assigned something, and nothing that ignores its own value.
pub(super) fn possible(program: &Program, joint: &Joint, variable: usize) -> bool {
    let declared = &program.variables[variable];
    let distance = declared.high.abs_diff(declared.init);
    if declared.boolean || !(3..MAX_LEVELS).contains(&distance) {
        return false;
    }
    let commands = touching(joint, variable);
    commands.iter().any(|c| joint.commands[*c].assigns(variable))
        && commands.iter().all(|c| {
            joint.commands[*c].alternatives.iter().all(|alternative| {
                alternative
                    .assignments
                    .iter()
                    .all(|(v, expr)| *v != variable || expr.reads(variable))
            })
        })
}

/// Whether every state of this height is one to stop in.
fn stops(joint: &Joint, variable: usize, height: i64) -> bool {
    joint
        .stop
        .as_ref()
        .is_some_and(|stop| stop.with(&|v| (v == variable).then_some(height)) == Expr::Bool(true))
}

/// The residue of the program at `height`, with the counter's updates as differences. `None` if it may fall or jump.
fn rising(
    joint: &Joint,
    commands: &[usize],
    variable: usize,
    height: i64,
    top: i64,
    rises: &mut Vec<u32>,
) -> Option<Signature> {
    let mut signature = Signature::new(joint, commands, variable, height);
    let counts = signature.map_targets(|target| match target {
        Target::Value(to) if *to > top => Some(Target::Other(Expr::Int(*to))),
        Target::Value(to) => {
            let rise = u32::try_from(to.checked_sub(height)?).ok()?;
            if rise > 0 && !rises.contains(&rise) {
                rises.push(rise);
            }
            Some(Target::Value(i64::from(rise)))
        }
        Target::Other(_) => None,
    });
    counts.then_some(signature)
}
