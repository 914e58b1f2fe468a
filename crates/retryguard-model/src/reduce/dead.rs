//! Variables that nothing will read before they are written again.
//!
//! Liveness, as a compiler knows it, with the values of one other variable (the control) as program points: the index
//! of a timer is live while the timer runs, and dead while it is idle if starting the timer sets the index.

use super::signature::{Alternative, Joint, JointCommand};
use crate::expr::{Compare, Expr, Kind};
use crate::program::Program;

/// Controls with more values than this are not looked at.
const MAX_CONTROL: u64 = 64;

#[derive(Clone, Debug)]
pub(super) struct Dead {
    pub(super) variable: usize,
    pub(super) control: usize,
    low: i64,
    /// For each value of the control.
    dead: Vec<bool>,
    /// What the variable is set to.
    rest: i64,
}

impl Dead {
    pub(super) fn apply(&self, state: &mut [i64]) {
        let place = usize::try_from(state[self.control] - self.low).expect("values are within their range");
        if self.dead[place] {
            state[self.variable] = self.rest;
        }
    }
}

pub(super) fn find(program: &Program, joint: &Joint, skip: Option<usize>) -> Vec<Dead> {
    let count = program.variables.len();
    let facts: Vec<Facts<'_>> = joint
        .commands
        .iter()
        .map(|command| Facts::new(command, count))
        .collect();
    let mut found = Vec::new();
    for variable in 0..count {
        if Some(variable) == skip || program.variables[variable].high == program.variables[variable].low {
            continue;
        }
        let reading: Vec<usize> = (0..facts.len()).filter(|c| facts[*c].reads[variable]).collect();
        for control in 0..count {
            let declared = &program.variables[control];
            if control == variable
                || Some(control) == skip
                || declared.high.abs_diff(declared.low) >= MAX_CONTROL
            {
                continue;
            }
            let question = Question {
                program,
                joint,
                facts: &facts,
                variable,
                control,
            };
            let live = question.live(&reading);
            if live.iter().any(|live| !live) {
                found.push(Dead {
                    variable,
                    control,
                    low: declared.low,
                    dead: live.iter().map(|live| !live).collect(),
                    rest: program.variables[variable].init,
                });
            }
        }
    }
    found
}

/// What a command tells at a glance.
struct Facts<'j> {
    command: &'j JointCommand,
    reads: Vec<bool>,
    assigns: Vec<bool>,
    /// The range of each variable outside which the guard is false.
    ranges: Vec<(usize, i64, i64)>,
}

impl<'j> Facts<'j> {
    fn new(command: &'j JointCommand, count: usize) -> Facts<'j> {
        let mut reads = vec![false; count];
        let mut assigns = vec![false; count];
        let mut see = |expr: &Expr| expr.variables(&mut |v| reads[v] = true);
        command.guard.iter().chain(&command.rewards).for_each(&mut see);
        for alternative in &command.alternatives {
            alternative.rate.iter().for_each(&mut see);
            for (assigned, value) in &alternative.assignments {
                see(value);
                assigns[*assigned] = true;
            }
        }
        Facts {
            command,
            reads,
            assigns,
            ranges: command.guard.iter().filter_map(range).collect(),
        }
    }

    fn possible(&self, variable: usize, value: i64) -> bool {
        self.ranges
            .iter()
            .all(|(v, low, high)| *v != variable || (*low <= value && value <= *high))
    }
}

/// The values of a variable outside which a part of a guard is false.
pub(super) fn range(part: &Expr) -> Option<(usize, i64, i64)> {
    match part {
        Expr::Variable(v, true) => Some((*v, 1, 1)),
        Expr::Not(inner) => match **inner {
            Expr::Variable(v, true) => Some((v, 0, 0)),
            _ => None,
        },
        Expr::Compare(compare, Kind::Int, a, b) => match (&**a, &**b, compare) {
            (Expr::Variable(v, _), Expr::Int(k), Compare::Equal)
            | (Expr::Int(k), Expr::Variable(v, _), Compare::Equal) => Some((*v, *k, *k)),
            (Expr::Variable(v, _), Expr::Int(k), Compare::Less) => Some((*v, i64::MIN, k.saturating_sub(1))),
            (Expr::Variable(v, _), Expr::Int(k), Compare::LessOrEqual) => Some((*v, i64::MIN, *k)),
            (Expr::Int(k), Expr::Variable(v, _), Compare::Less) => Some((*v, k.saturating_add(1), i64::MAX)),
            (Expr::Int(k), Expr::Variable(v, _), Compare::LessOrEqual) => Some((*v, *k, i64::MAX)),
            _ => None,
        },
        _ => None,
    }
}

struct Question<'q> {
    program: &'q Program,
    joint: &'q Joint,
    facts: &'q [Facts<'q>],
    variable: usize,
    control: usize,
}

impl Question<'_> {
    /// For each value of the control, whether the variable may be read before it is written.
    fn live(&self, reading: &[usize]) -> Vec<bool> {
        let control = &self.program.variables[self.control];
        let values: Vec<i64> = (control.low..=control.high).collect();
        let mut live: Vec<bool> = values.iter().map(|value| self.observed(*value)).collect();
        for (place, value) in values.iter().enumerate() {
            if !live[place] {
                live[place] = reading.iter().any(|c| self.read_at(*c, *value));
            }
        }
        // Commands that leave the control where it is add nothing.
        let moving: Vec<usize> = (0..self.facts.len())
            .filter(|c| self.facts[*c].assigns[self.control])
            .collect();
        loop {
            let mut changed = false;
            for (place, value) in values.iter().enumerate() {
                if live[place] {
                    continue;
                }
                let becomes =
                    moving.iter().any(|c| {
                        self.facts[*c].possible(self.control, *value)
                            && self.facts[*c].command.alternatives.iter().any(|alternative| {
                                self.leads_to_life(alternative, *value, control.low, &live)
                            })
                    });
                live[place] = becomes;
                changed |= becomes;
            }
            if !changed {
                return live;
            }
        }
    }

    fn leads_to_life(&self, alternative: &Alternative, value: i64, low: i64, live: &[bool]) -> bool {
        let overwritten = alternative
            .assignments
            .iter()
            .any(|(v, expr)| *v == self.variable && !expr.reads(self.variable));
        if overwritten {
            return false;
        }
        let target = alternative
            .assignments
            .iter()
            .find(|(v, _)| *v == self.control)
            .map(|(_, expr)| self.residue(expr, value));
        match target {
            None => false,
            Some(Expr::Int(to)) => usize::try_from(to - low)
                .ok()
                .and_then(|place| live.get(place).copied())
                .unwrap_or(true),
            Some(Expr::Bool(to)) => live[usize::from(to)],
            Some(_) => live.iter().any(|live| *live),
        }
    }

    fn observed(&self, value: i64) -> bool {
        self.joint.observed.iter().any(|parts| {
            if !parts.iter().any(|part| part.reads(self.variable)) {
                return false;
            }
            let residues: Vec<Expr> = parts.iter().map(|part| self.residue(part, value)).collect();
            residues[0] != Expr::Bool(false) && residues.iter().any(|part| part.reads(self.variable))
        })
    }

    fn read_at(&self, place: usize, value: i64) -> bool {
        let facts = &self.facts[place];
        if !facts.possible(self.control, value) {
            return false;
        }
        let command = facts.command;
        let reads = |part: &Expr| {
            part.reads(self.variable)
                && (!part.reads(self.control) || self.residue(part, value).reads(self.variable))
        };
        // A guard may be false for a reason that its ranges do not show.
        if command
            .guard
            .iter()
            .any(|part| part.reads(self.control) && self.residue(part, value) == Expr::Bool(false))
        {
            return false;
        }
        // An update of the variable by itself counts as a read: it may leave the range.
        command.guard.iter().chain(&command.rewards).any(reads)
            || command.alternatives.iter().any(|alternative| {
                alternative.rate.iter().any(reads)
                    || alternative.assignments.iter().any(|(_, expr)| reads(expr))
            })
    }

    fn residue(&self, expr: &Expr, value: i64) -> Expr {
        expr.with(&|v| (v == self.control).then_some(value))
    }
}
