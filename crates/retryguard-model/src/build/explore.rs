//! Breadth-first exploration.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::guard::{Guard, Number};
use super::initial::initial_states;
use super::pack::{Key, Packing};
use super::successors::{Machine, state_error};
use crate::chain::{Chain, Exit, Levels, Memory, Rises, index};
use crate::error::{Error, MEMORY};
use crate::options::Options;
use crate::program::Program;
use crate::reduce::{Reduction, Step};
use crate::source::Span;
use crate::wanted::Wanted;

/// Bytes for each state that an answer takes whatever solves it: conditions and rewards as the question wants them, the values, and which
/// states are still to be solved.
const ASKED: u64 = 40;

/// How often limits and progress are looked at.
/// The part of the states that are allowed which a model may have while a variable without a range is far from its start.
const UNRANGED_PART: u64 = 25;
/// The distance from its start at which a variable is far from it.
const FAR: u64 = 1_000;
const CHECK_EVERY: usize = 1 << 14;

pub(super) fn explore<K: Key>(
    program: &Program,
    wanted: &Wanted,
    reduction: &Reduction,
    options: &Options,
    packing: &Packing,
) -> Result<Chain, Error> {
    let mut explorer = Explorer::<K> {
        program,
        wanted,
        reduction,
        options,
        packing,
        numbers: FxHashMap::default(),
        keys: Vec::new(),
        likely: Vec::new(),
        chain: Chain::default(),
        queue: VecDeque::new(),
    };
    explorer.start()?;
    explorer.run()?;
    Ok(explorer.finish())
}

struct Explorer<'a, K> {
    program: &'a Program,
    wanted: &'a Wanted,
    reduction: &'a Reduction,
    options: &'a Options,
    packing: &'a Packing,
    numbers: FxHashMap<K, u32>,
    keys: Vec<K>,
    /// The probability of the likeliest path to each state, when the space is truncated by it.
    likely: Vec<f64>,
    chain: Chain,
    /// The rows of a truncated space are not made in the order of discovery.
    queue: VecDeque<u32>,
}

impl<K: Key> Explorer<'_, K> {
    fn start(&mut self) -> Result<(), Error> {
        let rewards = self.wanted.rewards.len();
        self.chain.state_rewards = vec![Vec::new(); rewards];
        self.chain.transition_rewards = vec![Vec::new(); rewards];
        self.chain.conditions = vec![Vec::new(); self.wanted.conditions.len()];
        self.chain.values = vec![Vec::new(); self.wanted.values.len()];
        self.chain.levels = self.reduction.level.clone().map(|plan| Levels {
            plan,
            class: Vec::new(),
            rows: vec![0],
            exits: Vec::new(),
        });
        self.chain.rises = vec![Rises::default(); self.reduction.unreached.len()];
        self.chain.rows.push(0);
        for mut state in initial_states(self.program)? {
            if let Some(level) = &self.reduction.level {
                state[level.variable] = level.representative(level.class_of(state[level.variable]));
            }
            self.reduction.normalise(&mut state);
            let number = self.number(&state, 1.0)?;
            if !self.chain.initial.contains(&number) {
                self.chain.initial.push(number);
            }
        }
        Ok(())
    }

    fn number(&mut self, state: &[i64], likely: f64) -> Result<u32, Error> {
        let key = self.packing.pack(state);
        match self.numbers.entry(key) {
            Entry::Occupied(entry) => {
                let number = *entry.get();
                if self.options.truncate.is_some() && likely > self.likely[number as usize] {
                    self.likely[number as usize] = likely;
                }
                Ok(number)
            }
            Entry::Vacant(entry) => {
                if self.keys.len() as u64 >= self.options.max_states.min(u64::from(u32::MAX)) {
                    return Err(Error::Limit {
                        what: "states",
                        limit: self.options.max_states,
                        help: "raise it with --max-states, or make counters and Erlang shapes smaller",
                    });
                }
                let number = index(self.keys.len());
                entry.insert(number);
                self.keys.push(key);
                if self.options.truncate.is_some() {
                    self.likely.push(likely);
                }
                self.queue.push_back(number);
                Ok(number)
            }
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut machine = Machine::new(self.program, &self.wanted.rewards);
        let stop = self.wanted.stop.as_ref().map(Guard::new);
        let conditions: Vec<Guard> = self.wanted.conditions.iter().map(Guard::new).collect();
        let values: Vec<Number> = self.wanted.values.iter().map(Number::new).collect();
        let mut state = vec![0i64; self.program.variables.len()];
        let mut row: Vec<(u32, f64)> = Vec::new();
        let mut exits: Vec<Exit> = Vec::new();
        let mut earned = vec![0.0; self.wanted.rewards.len()];
        while let Some(number) = self.queue.pop_front() {
            let key = self.keys[number as usize];
            self.packing.unpack(&key, &mut state);
            if self.wanted.valuations {
                self.chain.valuations.extend_from_slice(&state);
            }
            let fault = |f: crate::expr::Fault| {
                state_error(self.program, &state, f.reason().to_owned(), Span::default())
            };
            for (condition, column) in conditions.iter().zip(&mut self.chain.conditions) {
                column.push(condition.holds(&state).map_err(fault)?);
            }
            for (value, column) in values.iter().zip(&mut self.chain.values) {
                column.push(value.value(&state).map_err(fault)?);
            }
            earned.fill(0.0);
            machine.state_rewards(&state, &mut earned)?;
            for (column, value) in self.chain.state_rewards.iter_mut().zip(&earned) {
                column.push(*value);
            }
            for (end, rises) in self.reduction.unreached.iter().zip(&mut self.chain.rises) {
                rises.inside.push(state[end.variable] == end.stand_in);
            }
            if let Some(levels) = &mut self.chain.levels {
                levels
                    .class
                    .push(levels.plan.class_of(state[levels.plan.variable]));
            }
            let stopped = match &stop {
                Some(stop) => stop.holds(&state).map_err(fault)?,
                None => false,
            };
            self.chain.stopped.push(stopped);
            earned.fill(0.0);
            row.clear();
            exits.clear();
            let unlikely = self
                .options
                .truncate
                .is_some_and(|limit| self.likely[number as usize] < limit);
            if unlikely && !stopped {
                self.chain.cut.push(number);
            } else if !stopped {
                self.expand(&mut machine, &state, number, &mut earned, &mut row, &mut exits)?;
            }
            self.close_row(&row, &exits, &earned);
            if self.chain.rows.len().is_multiple_of(CHECK_EVERY) {
                self.check_memory(true)?;
                self.check_ranges(&state)?;
                if let Some(progress) = self.options.progress {
                    progress(self.keys.len() as u64);
                }
            }
        }
        // A limit holds for the last states too, and for chains that have fewer than those between two looks.
        self.check_memory(false)
    }

    /// Whether the space looks as if it had no end: many states, and a variable without a range far from where it began.
    fn check_ranges(&self, state: &[i64]) -> Result<(), Error> {
        let limit = self.options.max_states / UNRANGED_PART;
        let far = |(variable, value): (&crate::program::Variable, &i64)| {
            variable.unranged() && variable.init.abs_diff(*value) > FAR
        };
        if self.keys.len() as u64 <= limit {
            return Ok(());
        }
        match self.program.variables.iter().zip(state).find(|pair| far(*pair)) {
            None => Ok(()),
            Some((variable, _)) => Err(Error::Unranged {
                variable: variable.name.clone(),
                states: limit,
            }),
        }
    }

    fn expand(
        &mut self,
        machine: &mut Machine<'_>,
        state: &[i64],
        number: u32,
        earned: &mut [f64],
        row: &mut Vec<(u32, f64)>,
        exits: &mut Vec<Exit>,
    ) -> Result<(), Error> {
        let level = self.reduction.level.as_ref();
        let truncate = self.options.truncate.is_some();
        let mut found: Vec<(Vec<i64>, f64)> = Vec::new();
        let any = machine.transitions(state, earned, |successor, rate| {
            if truncate {
                // The likelihood of a step is known only when all rates are.
                found.push((successor.to_vec(), rate));
                return Ok(());
            }
            self.record(number, state, level, successor, rate, 1.0, row, exits)
        })?;
        if !any {
            if !self.options.fix_deadlocks {
                return Err(Error::Deadlock {
                    state: self.program.show(state),
                });
            }
            row.push((number, 1.0));
            self.chain.deadlocks.push(number);
            let show = || self.program.show(state);
            self.chain.first_deadlock.get_or_insert_with(show);
        }
        let total: f64 = found.iter().map(|(_, rate)| rate).sum();
        let here = self.likely.get(number as usize).copied().unwrap_or(1.0);
        for (mut successor, rate) in found {
            self.record(
                number,
                state,
                level,
                &mut successor,
                rate,
                here * rate / total,
                row,
                exits,
            )?;
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the scratch of the innermost loop is owned by its caller"
    )]
    fn record(
        &mut self,
        number: u32,
        state: &[i64],
        level: Option<&crate::chain::Level>,
        successor: &mut [i64],
        rate: f64,
        likely: f64,
        row: &mut Vec<(u32, f64)>,
        exits: &mut Vec<Exit>,
    ) -> Result<(), Error> {
        if let Some(level) = level {
            let rise = successor[level.variable] - state[level.variable];
            if rise != 0 {
                let steps = self.steps(state, successor);
                let rise = u32::try_from(rise).expect("a level variable only rises");
                for (place, class) in level
                    .above(level.class_of(state[level.variable]), rise)
                    .into_iter()
                    .enumerate()
                {
                    successor[level.variable] = level.representative(class);
                    self.reduction.normalise(successor);
                    let target = self.number(successor, likely)?;
                    for (rises, step) in self.chain.rises.iter_mut().zip(&steps) {
                        let pair = (number, target);
                        let known = rises
                            .resetting_exits
                            .iter()
                            .rev()
                            .take_while(|(from, _)| *from == number)
                            .any(|known| *known == pair);
                        let met = exits.iter().any(|exit| exit.target == target);
                        rises.unclear |= *step == Step::Rise || (met && known != (*step == Step::Reset));
                        if *step == Step::Reset && !known {
                            rises.resetting_exits.push(pair);
                        }
                    }
                    exits.push(Exit {
                        rise,
                        class,
                        target,
                        rate,
                        first: place == 0,
                    });
                }
                return Ok(());
            }
        }
        // Before values are taken as one it still shows which counter rises.
        let steps = self.steps(state, successor);
        self.reduction.normalise(successor);
        let target = self.number(successor, likely)?;
        for (rises, step) in self.chain.rises.iter_mut().zip(steps) {
            match step {
                Step::Rise => rises.moves.push((number, target, rate)),
                Step::Reset => rises.resets.push((number, target, rate)),
                Step::Other => {}
            }
        }
        match row.iter_mut().find(|(known, _)| *known == target) {
            Some((_, sum)) => *sum += rate,
            None => row.push((target, rate)),
        }
        Ok(())
    }

    /// What a transition does to the counters whose ends are out of reach, before their values are taken as one.
    fn steps(&self, state: &[i64], successor: &[i64]) -> Vec<Step> {
        let ends = self.reduction.unreached.iter();
        ends.map(|end| end.step(state[end.variable], successor[end.variable]))
            .collect()
    }

    fn close_row(&mut self, row: &[(u32, f64)], exits: &[Exit], earned: &[f64]) {
        for (target, rate) in row {
            self.chain.columns.push(*target);
            self.chain.rates.push(*rate);
        }
        self.chain.rows.push(self.chain.columns.len());
        for (column, value) in self.chain.transition_rewards.iter_mut().zip(earned) {
            column.push(*value);
        }
        if let Some(levels) = &mut self.chain.levels {
            levels.exits.extend_from_slice(exits);
            levels.rows.push(levels.exits.len());
        }
    }

    /// Bytes that the chain takes, by our own count: rows, transitions, rewards, flags.
    fn kept(&self) -> u64 {
        let states = self.keys.len() as u64;
        let mut per_state =
            12 + 17 * self.wanted.rewards.len() + self.wanted.conditions.len() + 8 * self.wanted.values.len();
        if self.wanted.valuations {
            per_state += 8 * self.program.variables.len();
        }
        let rises = self
            .chain
            .rises
            .iter()
            .map(|rises| 16 * (rises.moves.len() + rises.resets.len()) as u64 + states);
        let levels = self.chain.levels.as_ref().map_or(0, |levels| {
            12 * states + (levels.exits.len() * size_of::<Exit>()) as u64
        });
        let transitions = self.chain.columns.len() as u64 * 12;
        states * per_state as u64 + transitions + levels + rises.sum::<u64>()
    }

    /// Bytes of the keys of the states: a list and a table with their numbers. The table doubles when it is seven eighths full, and while
    /// it does so the old one and the new one exist: with `growing`, that moment is counted shortly before it comes.
    fn searched(&self, growing: bool) -> u64 {
        let room = self.numbers.capacity();
        let buckets = room as u64 * 8 / 7;
        let table = buckets * (size_of::<(K, u32)>() as u64 + 1);
        let soon = growing && self.numbers.len() >= room - room / 8;
        let lists = self.keys.len() * size_of::<K>() + self.queue.capacity() * 4 + self.likely.len() * 8;
        lists as u64 + if soon { 3 * table } else { table }
    }

    fn check_memory(&self, growing: bool) -> Result<(), Error> {
        if self.kept() + self.searched(growing) > self.options.max_memory {
            return Err(Error::Limit {
                what: MEMORY,
                limit: self.options.max_memory,
                help: "raise it with --max-memory, or make counters and Erlang shapes smaller",
            });
        }
        Ok(())
    }

    fn finish(mut self) -> Chain {
        for rises in &mut self.chain.rises {
            rises.resetting_exits.sort_unstable();
        }
        self.chain.memory = Some(Memory {
            limit: self.options.max_memory,
            used: self.kept() + ASKED * self.keys.len() as u64,
        });
        self.chain
    }
}
