//! The same model in words that the reductions know: without variables on which nothing that is asked depends, and with counters that
//! rise instead of fall.
//!
//! Both are exact. A variable that no guard, rate, reward or condition reads, not even through other variables, changes no answer. A counter from
//! 9999 down to 0 is one from 0 up to 9999 read in a mirror, and everything that looks for counters looks for those that rise.

use super::dead::range;
use super::ranges::hull;
use crate::elaborate::properties::Formula;
use crate::expr::{Arithmetic, Expr, Kind};
use crate::program::{Command, Program, RewardItem};
use crate::wanted::Wanted;

/// A program and questions about it that have the answers of the ones given.
pub(crate) struct Reworded {
    pub(crate) program: Program,
    pub(crate) formulas: Vec<Formula>,
    pub(crate) notes: Vec<String>,
}

/// `None` where nothing is to be said in other words. `wanted` is what the questions want.
pub(crate) fn reworded(program: &Program, wanted: &Wanted, formulas: &[Formula]) -> Option<Reworded> {
    if program.init.is_some() || wanted.valuations {
        return None;
    }
    let forgotten = forgotten(program, wanted);
    let falling: Vec<usize> = (0..program.variables.len())
        .filter(|v| !forgotten.contains(v) && falls(program, *v))
        .collect();
    if forgotten.is_empty() && falling.is_empty() {
        return None;
    }
    let mut made = program.clone();
    for update in updates(&mut made) {
        update.assignments.retain(|(v, _)| !forgotten.contains(v));
    }
    let mut formulas = formulas.to_vec();
    for variable in falling {
        mirror(&mut made, &mut formulas, variable);
    }
    let notes = forgotten.iter().map(|v| {
        let name = &program.variables[*v].name;
        format!("{name} is left out: nothing that is asked depends on it")
    });
    Some(Reworded {
        program: made,
        formulas,
        notes: notes.collect(),
    })
}

fn updates(program: &mut Program) -> impl Iterator<Item = &mut crate::program::Update> {
    let parts = program.groups.iter_mut().flat_map(|group| &mut group.parts);
    parts.flatten().flat_map(|command| &mut command.updates)
}

fn commands(program: &Program) -> impl Iterator<Item = &Command> {
    program.groups.iter().flat_map(|group| &group.parts).flatten()
}

/// The variables that are assigned and on which nothing depends.
fn forgotten(program: &Program, wanted: &Wanted) -> Vec<usize> {
    let mut read = vec![false; program.variables.len()];
    let mut see = |expr: &Expr| expr.variables(&mut |v| read[v] = true);
    let conditions = wanted.conditions.iter().chain(&wanted.values);
    conditions.chain(&wanted.stop).for_each(&mut see);
    for place in &wanted.rewards {
        let rewards = &program.rewards[*place];
        let transitions = rewards.transitions.iter().map(|(_, item)| item);
        for RewardItem { guard, value, .. } in rewards.states.iter().chain(transitions) {
            see(guard);
            see(value);
        }
    }
    let mut assigned = vec![false; program.variables.len()];
    for command in commands(program) {
        see(&command.guard);
        for update in &command.updates {
            see(&update.rate);
            for (variable, value) in &update.assignments {
                assigned[*variable] = true;
                // A value that may be outside the range is an error of the model, which is to be found.
                if !stays_inside(program, command, *variable, value) {
                    see(&Expr::Variable(*variable, false));
                }
            }
        }
    }
    loop {
        let mut more = Vec::new();
        for (variable, value) in commands(program)
            .flat_map(|command| &command.updates)
            .flat_map(|update| &update.assignments)
        {
            if read[*variable] {
                value.variables(&mut |v| {
                    if !read[v] {
                        more.push(v);
                    }
                });
            }
        }
        if more.is_empty() {
            break;
        }
        more.into_iter().for_each(|v| read[v] = true);
    }
    (0..read.len()).filter(|v| assigned[*v] && !read[*v]).collect()
}

/// Whether what a command assigns is within the range of the variable wherever its guard holds.
fn stays_inside(program: &Program, command: &Command, variable: usize, value: &Expr) -> bool {
    let declared = &program.variables[variable];
    // One without a range ends after two thousand million steps.
    if declared.boolean || declared.unranged() {
        return true;
    }
    let conditions = match &command.guard {
        Expr::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let known = |v: usize| {
        let own = (program.variables[v].low, program.variables[v].high);
        let ranges = conditions.iter().filter_map(range).filter(|(of, ..)| *of == v);
        ranges.fold(own, |(low, high), (_, least, most)| {
            (low.max(least), high.min(most))
        })
    };
    hull(value, &known).is_some_and(|(low, high)| declared.low <= low && high <= declared.high)
}

/// Whether a counter falls, and never rises but to a constant.
fn falls(program: &Program, variable: usize) -> bool {
    let declared = &program.variables[variable];
    if declared.boolean || declared.high.abs_diff(declared.low) < 3 {
        return false;
    }
    // Two neighbours show what is constant.
    let middle = declared.low + (declared.high - declared.low) / 2;
    let at = |expr: &Expr, value: i64| expr.with(&|v| (v == variable).then_some(value));
    let mut found = false;
    for command in commands(program) {
        if at(&command.guard, middle) == Expr::Bool(false) {
            continue;
        }
        for (_, value) in command
            .updates
            .iter()
            .flat_map(|update| &update.assignments)
            .filter(|(v, _)| *v == variable)
        {
            match (at(value, middle), at(value, middle + 1)) {
                (Expr::Int(a), Expr::Int(b)) if a == b => {}
                (Expr::Int(a), Expr::Int(_)) if a <= middle => found |= a < middle,
                _ => return false,
            }
        }
    }
    found
}

/// Reads a variable from the other end of its range.
fn mirror(program: &mut Program, formulas: &mut [Formula], variable: usize) {
    let declared = &mut program.variables[variable];
    let Some(sum) = declared.low.checked_add(declared.high) else {
        return;
    };
    declared.init = sum - declared.init;
    declared.mirrored = true;
    let seen = Expr::arithmetic(
        Arithmetic::Subtract,
        Kind::Int,
        Expr::Int(sum),
        Expr::Variable(variable, false),
    );
    let put = |expr: &mut Expr| *expr = expr.put(&|v, _| (v == variable).then(|| seen.clone()));
    for (_, label) in &mut program.labels {
        put(label);
    }
    for rewards in &mut program.rewards {
        let transitions = rewards.transitions.iter_mut().map(|(_, item)| item);
        for item in rewards.states.iter_mut().chain(transitions) {
            put(&mut item.guard);
            put(&mut item.value);
        }
    }
    for command in program
        .groups
        .iter_mut()
        .flat_map(|group| &mut group.parts)
        .flatten()
    {
        put(&mut command.guard);
        for update in &mut command.updates {
            put(&mut update.rate);
            for (assigned, value) in &mut update.assignments {
                match *assigned == variable {
                    true => *value = turned(value, variable, sum, &put),
                    false => put(value),
                }
            }
        }
    }
    for formula in formulas {
        formula.each_expression(&mut |expr| put(expr));
    }
}

/// `sum - value`, in few words: what falls by one in `value` rises by one here.
fn turned(value: &Expr, variable: usize, sum: i64, put: &impl Fn(&mut Expr)) -> Expr {
    let turn = |value: &Expr| turned(value, variable, sum, put);
    match value {
        Expr::Variable(v, _) if *v == variable => value.clone(),
        Expr::Arithmetic(how @ (Arithmetic::Add | Arithmetic::Subtract), Kind::Int, a, b)
            if matches!(**b, Expr::Int(_)) =>
        {
            let other = match how {
                Arithmetic::Add => Arithmetic::Subtract,
                _ => Arithmetic::Add,
            };
            Expr::arithmetic(other, Kind::Int, turn(a), (**b).clone())
        }
        Expr::Arithmetic(how @ (Arithmetic::Min | Arithmetic::Max), Kind::Int, a, b) => {
            let other = match how {
                Arithmetic::Min => Arithmetic::Max,
                _ => Arithmetic::Min,
            };
            Expr::arithmetic(other, Kind::Int, turn(a), turn(b))
        }
        Expr::IfThenElse(condition, yes, no) => {
            let mut condition = (**condition).clone();
            put(&mut condition);
            Expr::if_then_else(condition, turn(yes), turn(no))
        }
        other => {
            let mut other = other.clone();
            put(&mut other);
            Expr::arithmetic(Arithmetic::Subtract, Kind::Int, Expr::Int(sum), other)
        }
    }
}
