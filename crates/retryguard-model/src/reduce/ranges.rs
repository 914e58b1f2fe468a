//! The values that a variable can take at all.
//!
//! A declared range is often a little wider than what the commands use: `phase : [1..SHAPE + 1]` never reaches its end. A guard such as
//! `phase <= SHAPE` then reads the phase and yet decides nothing, and a variable that is read is not dead. Each variable is
//! followed by itself, with the part of a guard that is about it alone, so what is found holds for every state that can be reached.

use super::dead::range;
use super::signature::Joint;
use crate::expr::{Arithmetic, Expr};
use crate::program::Program;

/// The program with the ranges of its variables narrowed to what can be reached, and `joint` without the conditions that these decide.
pub(super) fn narrow(program: &Program, joint: &mut Joint) -> Program {
    let mut narrowed = program.clone();
    if program.init.is_some() {
        return narrowed;
    }
    for variable in 0..program.variables.len() {
        if !program.variables[variable].boolean {
            let (low, high) = reachable(program, joint, variable);
            narrowed.variables[variable].low = low;
            narrowed.variables[variable].high = high;
        }
    }
    let known = |v: usize| (narrowed.variables[v].low, narrowed.variables[v].high);
    for command in &mut joint.commands {
        for part in &mut command.guard {
            *part = part.within(&known);
        }
        command.guard.retain(|part| *part != Expr::Bool(true));
    }
    joint
        .commands
        .retain(|command| !command.guard.contains(&Expr::Bool(false)));
    narrowed
}

/// From the initial value outwards: an end that commands move is taken as the declared one. What the commands make of a range that
/// contains all reachable values contains them too, so that from there on the range may shrink again.
fn reachable(program: &Program, joint: &Joint, variable: usize) -> (i64, i64) {
    let declared = &program.variables[variable];
    let mut found = (declared.init, declared.init);
    loop {
        let next = image(program, joint, variable, found);
        if next.0 >= found.0 && next.1 <= found.1 {
            break;
        }
        // Each end moves once.
        found = (
            if next.0 < found.0 { declared.low } else { found.0 },
            if next.1 > found.1 { declared.high } else { found.1 },
        );
    }
    // A bound may depend on another one through the guards; two rounds settle the ranges that models have.
    for _ in 0..3 {
        let next = image(program, joint, variable, found);
        if next == found {
            break;
        }
        found = next;
    }
    found
}

/// The initial value and all that commands assign, where the variable is within `from`.
fn image(program: &Program, joint: &Joint, variable: usize, from: (i64, i64)) -> (i64, i64) {
    let declared = &program.variables[variable];
    let (mut low, mut high) = (declared.init, declared.init);
    for command in &joint.commands {
        let mut here = from;
        for (v, least, most) in command.guard.iter().filter_map(range) {
            if v == variable {
                here = (here.0.max(least), here.1.min(most));
            }
        }
        if here.0 > here.1 {
            continue;
        }
        let assigned = command.alternatives.iter().flat_map(|a| &a.assignments);
        // An assignment of its own value adds none.
        let kept = Expr::Variable(variable, false);
        for (_, value) in assigned.filter(|(v, value)| *v == variable && *value != kept) {
            let known = |v: usize| match v == variable {
                true => here,
                false => (program.variables[v].low, program.variables[v].high),
            };
            let (least, most) = hull(value, &known).unwrap_or((declared.low, declared.high));
            // Beyond the declared range is an error, and no state.
            low = low.min(least.clamp(declared.low, declared.high));
            high = high.max(most.clamp(declared.low, declared.high));
        }
    }
    (low, high)
}

/// The least and the largest value of an expression of whole numbers, where interval arithmetic shows it.
pub(super) fn hull(expr: &Expr, known: &impl Fn(usize) -> (i64, i64)) -> Option<(i64, i64)> {
    match expr {
        Expr::Int(value) => Some((*value, *value)),
        Expr::Variable(v, false) => Some(known(*v)),
        Expr::IfThenElse(_, yes, no) => {
            let (a, b) = (hull(yes, known)?, hull(no, known)?);
            Some((a.0.min(b.0), a.1.max(b.1)))
        }
        Expr::Arithmetic(operator, crate::expr::Kind::Int, a, b) => {
            let (a, b) = (hull(a, known)?, hull(b, known)?);
            match operator {
                Arithmetic::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
                Arithmetic::Subtract => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
                Arithmetic::Min => Some((a.0.min(b.0), a.1.min(b.1))),
                Arithmetic::Max => Some((a.0.max(b.0), a.1.max(b.1))),
                _ => None,
            }
        }
        _ => None,
    }
}
