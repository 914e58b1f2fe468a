//! The transitions of one state.

use super::guard::{Guard, Number};
use crate::error::Error;
use crate::expr::{Expr, Fault};
use crate::program::{Program, RewardItem};
use crate::source::Span;

/// The commands of a program, ready to run.
pub(super) struct Machine<'p> {
    program: &'p Program,
    groups: Vec<Group>,
    /// For each reward structure that is wanted.
    state_rewards: Vec<Vec<Item>>,
    transition_rewards: Vec<Vec<(usize, Item)>>,
    // Scratch.
    enabled: Vec<Vec<usize>>,
    commands: Odometer,
    updates: Odometer,
    successor: Vec<i64>,
}

struct Group {
    parts: Vec<Vec<Command>>,
}

struct Command {
    guard: Guard,
    updates: Vec<Update>,
    span: Span,
}

struct Update {
    rate: Number,
    assignments: Vec<(usize, Expr)>,
    span: Span,
}

struct Item {
    guard: Guard,
    value: Number,
    span: Span,
}

impl<'p> Machine<'p> {
    pub(super) fn new(program: &'p Program, rewards: &[usize]) -> Machine<'p> {
        let groups = program
            .groups
            .iter()
            .map(|group| Group {
                parts: group
                    .parts
                    .iter()
                    .map(|part| part.iter().map(command).collect())
                    .collect(),
            })
            .collect();
        let state_rewards = rewards
            .iter()
            .map(|place| program.rewards[*place].states.iter().map(item).collect())
            .collect();
        let transition_rewards = rewards
            .iter()
            .map(|place| {
                let mut items = Vec::new();
                for (action, reward) in &program.rewards[*place].transitions {
                    for (group, written) in program.groups.iter().enumerate() {
                        if written.action == *action {
                            items.push((group, item(reward)));
                        }
                    }
                }
                items
            })
            .collect();
        let width = program.groups.iter().map(|g| g.parts.len()).max().unwrap_or(0);
        Machine {
            program,
            groups,
            state_rewards,
            transition_rewards,
            enabled: vec![Vec::new(); width],
            commands: Odometer::default(),
            updates: Odometer::default(),
            successor: vec![0; program.variables.len()],
        }
    }

    /// Calls `visit(successor, rate)` for every transition of `state`, and adds to `earned` what each wanted reward
    /// structure pays for its transitions, by the rate at which they happen. Returns whether the state is ever left, or
    /// returns to itself: what has the rate 0 does not happen.
    pub(super) fn transitions(
        &mut self,
        state: &[i64],
        earned: &mut [f64],
        mut visit: impl FnMut(&mut [i64], f64) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let program = self.program;
        let fault = |fault: Fault, span: Span| state_error(program, state, fault.reason().to_owned(), span);
        let mut any = false;
        for (place, group) in self.groups.iter().enumerate() {
            let mut blocked = false;
            for (part, enabled) in group.parts.iter().zip(&mut self.enabled) {
                enabled.clear();
                for (index, command) in part.iter().enumerate() {
                    if command.guard.holds(state).map_err(|f| fault(f, command.span))? {
                        enabled.push(index);
                    }
                }
                if enabled.is_empty() {
                    blocked = true;
                    break;
                }
            }
            if blocked {
                continue;
            }
            let mut group_rate = 0.0;
            let enabled = &self.enabled[..group.parts.len()];
            self.commands.start(enabled.iter().map(Vec::len));
            while let Some(choice) = self.commands.current() {
                let commands = || {
                    choice
                        .iter()
                        .enumerate()
                        .map(|(part, index)| &group.parts[part][enabled[part][*index]])
                };
                let (updates, successor) = (&mut self.updates, &mut self.successor);
                group_rate += joint(program, state, commands, updates, successor, &mut visit)?;
                self.commands.advance();
            }
            any |= group_rate > 0.0;
            for (items, sum) in self.transition_rewards.iter().zip(earned.iter_mut()) {
                for (_, item) in items.iter().filter(|(group, _)| *group == place) {
                    *sum += group_rate * reward(program, state, item)?;
                }
            }
        }
        Ok(any)
    }

    pub(super) fn state_rewards(&self, state: &[i64], earned: &mut [f64]) -> Result<(), Error> {
        for (items, sum) in self.state_rewards.iter().zip(earned) {
            for item in items {
                *sum += reward(self.program, state, item)?;
            }
        }
        Ok(())
    }
}

/// Runs the commands of one combination, in every combination of their updates. Returns the sum of the rates.
fn joint<'c, C: Iterator<Item = &'c Command> + Clone>(
    program: &Program,
    state: &[i64],
    commands: impl Fn() -> C,
    combination: &mut Odometer,
    successor: &mut [i64],
    visit: &mut impl FnMut(&mut [i64], f64) -> Result<(), Error>,
) -> Result<f64, Error> {
    combination.start(commands().map(|c| c.updates.len()));
    let mut total = 0.0;
    while let Some(choice) = combination.current() {
        successor.copy_from_slice(state);
        let mut rate = 1.0;
        let mut culprit = None;
        let mut written: Vec<usize> = Vec::new();
        for (command, index) in commands().zip(choice) {
            let update = &command.updates[*index];
            let fault = |fault: Fault| state_error(program, state, fault.reason().to_owned(), update.span);
            let own = update.rate.value(state).map_err(fault)?;
            if !is_amount(own) {
                culprit.get_or_insert((own, update.span));
            }
            rate *= own;
            for (variable, value) in &update.assignments {
                let stored = value.stored(state).map_err(fault)?;
                assign(program, state, successor, *variable, stored, update.span)?;
                if choice.len() > 1 && program.variables[*variable].module.is_none() {
                    if written.contains(variable) {
                        return Err(state_error(
                            program,
                            state,
                            format!(
                                "two synchronised commands both assign `{}`",
                                program.variables[*variable].name
                            ),
                            update.span,
                        ));
                    }
                    written.push(*variable);
                }
            }
        }
        if culprit.is_some() || !is_amount(rate) {
            let whole = commands().next().map_or(Span::default(), |c| c.span);
            let (rate, span) = culprit.unwrap_or((rate, whole));
            let reason = format!("the rate would be {rate}: it must be finite and not negative,");
            return Err(state_error(program, state, reason, span));
        }
        if rate > 0.0 {
            visit(successor, rate)?;
            total += rate;
        }
        combination.advance();
    }
    Ok(total)
}

fn assign(
    program: &Program,
    state: &[i64],
    successor: &mut [i64],
    variable: usize,
    value: i64,
    span: Span,
) -> Result<(), Error> {
    let declared = &program.variables[variable];
    if value < declared.low || value > declared.high {
        return Err(state_error(
            program,
            state,
            format!(
                "`{}` would become {value}, outside its range [{}..{}],",
                declared.name, declared.low, declared.high
            ),
            span,
        ));
    }
    successor[variable] = value;
    Ok(())
}

fn reward(program: &Program, state: &[i64], item: &Item) -> Result<f64, Error> {
    let fault = |fault: Fault| state_error(program, state, fault.reason().to_owned(), item.span);
    if !item.guard.holds(state).map_err(fault)? {
        return Ok(0.0);
    }
    let value = item.value.value(state).map_err(fault)?;
    if !is_amount(value) {
        let reason = format!("the reward would be {value}: it must be finite and not negative,");
        return Err(state_error(program, state, reason, item.span));
    }
    Ok(value)
}

fn is_amount(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}

pub(super) fn state_error(program: &Program, state: &[i64], reason: String, span: Span) -> Error {
    Error::State {
        span,
        reason,
        state: program.show(state),
    }
}

fn command(written: &crate::program::Command) -> Command {
    Command {
        guard: Guard::new(&written.guard),
        updates: written
            .updates
            .iter()
            .map(|update| Update {
                rate: Number::new(&update.rate),
                assignments: update.assignments.clone(),
                span: update.span,
            })
            .collect(),
        span: written.span,
    }
}

fn item(written: &RewardItem) -> Item {
    Item {
        guard: Guard::new(&written.guard),
        value: Number::new(&written.value),
        span: written.span,
    }
}

/// Every combination of one place from each of several lists. It is used again and again, because a state space has millions.
#[derive(Default)]
struct Odometer {
    places: Vec<usize>,
    sizes: Vec<usize>,
    done: bool,
}

impl Odometer {
    fn start(&mut self, sizes: impl Iterator<Item = usize>) {
        self.sizes.clear();
        self.sizes.extend(sizes);
        self.places.clear();
        self.places.resize(self.sizes.len(), 0);
        self.done = self.sizes.contains(&0);
    }

    fn current(&self) -> Option<&[usize]> {
        (!self.done).then_some(self.places.as_slice())
    }

    fn advance(&mut self) {
        for (place, size) in self.places.iter_mut().zip(&self.sizes) {
            *place += 1;
            if *place < *size {
                return;
            }
            *place = 0;
        }
        self.done = true;
    }
}
