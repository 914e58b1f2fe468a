//! The program with its synchronisation multiplied out, and what is left of it when one variable has a value.

use crate::expr::Expr;
use crate::program::{Command, Program, RewardItem};
use crate::wanted::Wanted;

/// How many combinations of updates are looked at. Beyond, nothing is reduced.
const MAX_ALTERNATIVES: usize = 20_000;

/// Everything that a question can depend on.
pub(super) struct Joint {
    pub(super) commands: Vec<JointCommand>,
    /// Conditions and rewards of states, in a fixed order.
    pub(super) observed: Vec<Vec<Expr>>,
    /// For each of these what it counts towards: the rewards of one structure are one sum.
    pub(super) sums: Vec<usize>,
    pub(super) stop: Option<Expr>,
}

/// One command of each synchronised module.
pub(super) struct JointCommand {
    /// All must hold.
    pub(super) guard: Vec<Expr>,
    pub(super) alternatives: Vec<Alternative>,
    /// Guards and values of the transition rewards, with the reward structure before each.
    pub(super) rewards: Vec<Expr>,
}

pub(super) struct Alternative {
    pub(super) rate: Vec<Expr>,
    pub(super) assignments: Vec<(usize, Expr)>,
}

impl Joint {
    pub(super) fn new(program: &Program, wanted: &Wanted) -> Option<Joint> {
        let mut commands = Vec::new();
        let mut count = 0usize;
        for group in &program.groups {
            let mut rewards = Vec::new();
            for (slot, place) in wanted.rewards.iter().enumerate() {
                for (action, item) in &program.rewards[*place].transitions {
                    if *action == group.action {
                        rewards.push(Expr::Int(i64::try_from(slot).ok()?));
                        rewards.extend(pair(item));
                    }
                }
            }
            let mut chosen: Vec<&Command> = Vec::new();
            combine(&group.parts, &mut chosen, &mut |combination| {
                let command = join(combination, rewards.clone());
                count += command.alternatives.len();
                commands.push(command);
                count <= MAX_ALTERNATIVES
            })?;
        }
        let mut observed: Vec<Vec<Expr>> = Vec::new();
        let mut sums = Vec::new();
        for (slot, place) in wanted.rewards.iter().enumerate() {
            for item in &program.rewards[*place].states {
                observed.push(pair(item).to_vec());
                sums.push(slot);
            }
        }
        let conditions = wanted.conditions.iter().chain(&wanted.values);
        for condition in conditions.chain(&wanted.stop) {
            sums.push(wanted.rewards.len() + observed.len());
            observed.push(vec![condition.clone()]);
        }
        Some(Joint {
            commands,
            observed,
            sums,
            stop: wanted.stop.clone(),
        })
    }

    /// What is observed of a state with `variable` = `value`.
    pub(super) fn observed_at(&self, variable: usize, value: i64) -> Vec<Vec<Expr>> {
        let put = |v: usize| (v == variable).then_some(value);
        let parts = |parts: &Vec<Expr>| parts.iter().map(|part| part.with(&put)).collect();
        self.observed.iter().map(parts).collect()
    }
}

fn pair(item: &RewardItem) -> [Expr; 2] {
    [item.guard.clone(), item.value.clone()]
}

/// Calls `visit` with every combination of one command of each part. `None` once `visit` has had enough.
fn combine<'p>(
    parts: &'p [Vec<Command>],
    chosen: &mut Vec<&'p Command>,
    visit: &mut impl FnMut(&[&'p Command]) -> bool,
) -> Option<()> {
    let Some((first, rest)) = parts.split_first() else {
        return visit(chosen).then_some(());
    };
    for command in first {
        if command.guard == Expr::Bool(false) {
            continue;
        }
        chosen.push(command);
        combine(rest, chosen, visit)?;
        chosen.pop();
    }
    Some(())
}

fn join(commands: &[&Command], rewards: Vec<Expr>) -> JointCommand {
    let mut guard = Vec::new();
    let mut alternatives = vec![Alternative {
        rate: Vec::new(),
        assignments: Vec::new(),
    }];
    for command in commands {
        match &command.guard {
            Expr::Bool(true) => {}
            Expr::And(parts) => guard.extend(parts.iter().cloned()),
            other => guard.push(other.clone()),
        }
        let mut next = Vec::new();
        for before in &alternatives {
            for update in &command.updates {
                let mut rate = before.rate.clone();
                rate.push(update.rate.clone());
                let mut assignments = before.assignments.clone();
                assignments.extend(update.assignments.iter().cloned());
                next.push(Alternative { rate, assignments });
            }
            // The caller stops at the first command that is too large; this keeps that one small.
            if next.len() > MAX_ALTERNATIVES {
                break;
            }
        }
        alternatives = next;
    }
    JointCommand {
        guard,
        alternatives,
        rewards,
    }
}

impl JointCommand {
    pub(super) fn reads(&self, variable: usize) -> bool {
        self.guard.iter().any(|part| part.reads(variable))
            || self.rewards.iter().any(|part| part.reads(variable))
            || self.alternatives.iter().any(|alternative| {
                alternative.rate.iter().any(|part| part.reads(variable))
                    || alternative
                        .assignments
                        .iter()
                        .any(|(_, value)| value.reads(variable))
            })
    }

    pub(super) fn assigns(&self, variable: usize) -> bool {
        self.alternatives
            .iter()
            .any(|alternative| alternative.assignments.iter().any(|(v, _)| *v == variable))
    }
}

/// Variables and their new values.
pub(super) type Assignments = Vec<(usize, Expr)>;

/// What is left of the program when one variable has a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Signature {
    commands: Vec<Residue>,
    observed: Vec<Vec<Expr>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Residue {
    pub(super) guard: Vec<Expr>,
    /// Rates, what becomes of the other variables, and of this one.
    pub(super) alternatives: Vec<(Vec<Expr>, Assignments, Target)>,
    pub(super) rewards: Vec<Expr>,
}

impl Residue {
    /// What is left of `command` with `variable` = `value`; `None` where its guard is false.
    pub(super) fn new(command: &JointCommand, variable: usize, value: i64) -> Option<Residue> {
        let put = |v: usize| (v == variable).then_some(value);
        let mut guard = Vec::new();
        for part in &command.guard {
            match part.with(&put) {
                Expr::Bool(true) => {}
                Expr::Bool(false) => return None,
                other => guard.push(other),
            }
        }
        let alternatives = command
            .alternatives
            .iter()
            .map(|alternative| {
                let mut target = Target::Value(value);
                let mut assignments = Vec::new();
                for (assigned, expr) in &alternative.assignments {
                    let residue = expr.with(&put);
                    if *assigned != variable {
                        assignments.push((*assigned, residue));
                    } else {
                        target = match residue {
                            Expr::Int(to) => Target::Value(to),
                            Expr::Bool(to) => Target::Value(i64::from(to)),
                            other => Target::Other(other),
                        };
                    }
                }
                let rate = alternative.rate.iter().map(|part| part.with(&put)).collect();
                (rate, assignments, target)
            })
            .collect();
        Some(Residue {
            guard,
            alternatives,
            rewards: command.rewards.iter().map(|part| part.with(&put)).collect(),
        })
    }
}

/// What becomes of the variable itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    Value(i64),
    Other(Expr),
}

impl Signature {
    /// With `variable` = `value`. `touching` are the commands that read or assign the variable: the others are the
    /// same for every value.
    pub(super) fn new(joint: &Joint, touching: &[usize], variable: usize, value: i64) -> Signature {
        let mut commands: Vec<Residue> = touching
            .iter()
            .filter_map(|place| Residue::new(&joint.commands[*place], variable, value))
            .collect();
        commands.sort();
        let observed = joint.observed_at(variable, value);
        Signature { commands, observed }
    }

    /// Replaces every target by what `map` makes of it; false as soon as it makes nothing.
    pub(super) fn map_targets(&mut self, mut map: impl FnMut(&Target) -> Option<Target>) -> bool {
        for residue in &mut self.commands {
            for (_, _, target) in &mut residue.alternatives {
                match map(target) {
                    Some(mapped) => *target = mapped,
                    None => return false,
                }
            }
        }
        self.commands.sort();
        true
    }
}

/// The commands that read or assign `variable`.
pub(super) fn touching(joint: &Joint, variable: usize) -> Vec<usize> {
    (0..joint.commands.len())
        .filter(|place| {
            let command = &joint.commands[*place];
            command.reads(variable) || command.assigns(variable)
        })
        .collect()
}
