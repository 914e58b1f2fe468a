//! What the text shows of the states beyond the explored part.
//!
//! They are looked at with one variable left vague: all states that differ only in it, above a height below which every state met is
//! explored, are one place. A place has moves with the least and the most that their rates may be.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::elaborate::properties::Formula;
use crate::expr::{Expr, Interval, Maybe, Vague};
use crate::program::{Command, Group, Program, RewardItem, Rewards};

/// Places that are looked at before giving up.
const MAX_PLACES: usize = 20_000;
/// Heights that one move may cross.
const MAX_STEP: i64 = 64;

pub(super) struct Outside {
    pub(super) places: Vec<Place>,
    numbers: FxHashMap<Vec<i64>, usize>,
    variable: usize,
    /// The lowest height of a place.
    pub(super) low: i64,
    /// How far one move may go down.
    pub(super) drop: i64,
}

pub(super) struct Place {
    pub(super) moves: Vec<Move>,
    /// The most that is earned here per unit of time, moves included.
    pub(super) earned: f64,
}

pub(super) struct Move {
    pub(super) rate: Interval,
    pub(super) to: To,
}

#[derive(Clone, Copy)]
pub(super) enum To {
    /// To a place, higher by at most so much.
    Shift(usize, i64),
    /// To a place, at most so high.
    Jump(usize, i64),
    /// To the target, or into the explored part.
    Home,
}

/// What is asked about the states beyond.
pub(super) struct Asked<'a, H> {
    pub(super) program: &'a Program,
    pub(super) rewards: &'a Rewards,
    pub(super) target: &'a Formula,
    pub(super) variable: usize,
    pub(super) low: i64,
    /// Whether a state is the target or explored.
    pub(super) home: H,
}

impl Outside {
    /// The place of a state.
    pub(super) fn place(&self, state: &[i64]) -> Option<usize> {
        let mut key = state.to_vec();
        key[self.variable] = 0;
        self.numbers.get(&key).copied()
    }
}

impl<H: Fn(&[i64]) -> bool> Asked<'_, H> {
    /// All places that can be met from `starts`. The error says what could not be followed.
    pub(super) fn explore<'s>(&self, starts: impl Iterator<Item = &'s [i64]>) -> Result<Outside, String> {
        let mut found = Outside {
            places: Vec::new(),
            numbers: FxHashMap::default(),
            variable: self.variable,
            low: self.low,
            drop: 0,
        };
        let mut queue = VecDeque::new();
        for start in starts {
            number(&mut found, &mut queue, start.to_vec());
        }
        while let Some(state) = queue.pop_front() {
            let place = self.place(&state, &mut found, &mut queue)?;
            found.places.push(place);
            if found.numbers.len() > MAX_PLACES {
                return Err(format!(
                    "beyond the edge there are more than {MAX_PLACES} states that differ in more than `{}`",
                    self.name()
                ));
            }
        }
        Ok(found)
    }

    fn name(&self) -> &str {
        &self.program.variables[self.variable].name
    }

    fn high(&self) -> i64 {
        self.program.variables[self.variable].high
    }

    fn place(
        &self,
        state: &[i64],
        found: &mut Outside,
        queue: &mut VecDeque<Vec<i64>>,
    ) -> Result<Place, String> {
        let vague = Vague {
            state,
            variable: self.variable,
            low: self.low,
            high: self.high(),
        };
        let lost = || format!("the text does not show how {} goes on", self.program.show(state));
        let mut earned = sum_of(&vague, &self.rewards.states.iter().collect::<Vec<_>>()).ok_or_else(lost)?;
        let mut moves = Vec::new();
        for group in &self.program.groups {
            let paid: Vec<&RewardItem> = self
                .rewards
                .transitions
                .iter()
                .filter(|(action, _)| *action == group.action)
                .map(|(_, item)| item)
                .collect();
            let each = sum_of(&vague, &paid).ok_or_else(lost)?;
            for (rate, assignments) in joint(&vague, group).ok_or_else(lost)? {
                if rate.high == 0.0 {
                    continue;
                }
                earned += each * rate.high;
                let to = self.follow(&vague, &assignments, found, queue)?;
                moves.push(Move { rate, to });
            }
        }
        Ok(Place { moves, earned })
    }

    /// Where a move leads.
    fn follow(
        &self,
        vague: &Vague<'_>,
        assignments: &[(usize, &Expr)],
        found: &mut Outside,
        queue: &mut VecDeque<Vec<i64>>,
    ) -> Result<To, String> {
        let mut next = vague.state.to_vec();
        let mut own = None;
        for (variable, value) in assignments {
            if *variable == self.variable {
                own = Some(*value);
            } else if value.reads(self.variable) {
                return Err(format!(
                    "what becomes of `{}` depends on `{}`",
                    self.program.variables[*variable].name,
                    self.name()
                ));
            } else {
                next[*variable] = value.stored(vague.state).map_err(|f| f.reason().to_owned())?;
            }
        }
        let same = Expr::Variable(self.variable, false);
        let own = own.unwrap_or(&same);
        let declared = &self.program.variables[self.variable];
        if let Some((least, most)) = vague.shift(own) {
            // Down to the lowest height it comes from, at the farthest; below the places all must be known.
            let reach = (self.low + least).max(declared.low);
            self.all_home(&mut next, reach, self.low - 1)?;
            found.drop = found.drop.max(-least);
            return Ok(match self.goes_on(&next)? {
                false => To::Home,
                true => To::Shift(number(found, queue, next), most),
            });
        }
        let range = vague
            .number(own)
            .ok_or_else(|| format!("the text does not show what becomes of `{}`", self.name()))?;
        let (least, most) = (
            whole(range.low.max(declared.low as f64)),
            whole(range.high.min(declared.high as f64)),
        );
        self.all_home(&mut next, least, most.min(self.low - 1))?;
        if most < self.low {
            return Ok(To::Home);
        }
        Ok(match self.goes_on(&next)? {
            false => To::Home,
            true => To::Jump(number(found, queue, next), most),
        })
    }

    /// Whether a place can be met that is not the target for certain.
    fn goes_on(&self, next: &[i64]) -> Result<bool, String> {
        let vague = Vague {
            state: next,
            variable: self.variable,
            low: self.low,
            high: self.high(),
        };
        let target = truth(&vague, self.target)
            .ok_or_else(|| format!("whether {} is the target is not shown", self.program.show(next)))?;
        Ok(target.fails)
    }

    /// Checks that the states at the heights from `least` to `most` are the target or explored.
    fn all_home(&self, next: &mut [i64], least: i64, most: i64) -> Result<(), String> {
        if most - least >= MAX_STEP {
            return Err(format!("`{}` falls by more than {MAX_STEP} at once", self.name()));
        }
        for height in least..=most {
            next[self.variable] = height;
            if !(self.home)(next) {
                return Err(format!("{} lies beyond the edge too", self.program.show(next)));
            }
        }
        Ok(())
    }
}

fn number(found: &mut Outside, queue: &mut VecDeque<Vec<i64>>, mut state: Vec<i64>) -> usize {
    state[found.variable] = 0;
    let next = found.numbers.len();
    *found.numbers.entry(state).or_insert_with_key(|state| {
        queue.push_back(state.clone());
        next
    })
}

/// The most that `items` pay together.
fn sum_of(vague: &Vague<'_>, items: &[&RewardItem]) -> Option<f64> {
    let mut sum = 0.0;
    for item in items {
        if vague.truth(&item.guard)?.holds {
            sum += vague.number(&item.value)?.high;
        }
    }
    sum.is_finite().then_some(sum)
}

type Joint<'c> = (Interval, Vec<(usize, &'c Expr)>);

/// Every combination of commands that may be enabled, and of their updates.
fn joint<'c>(vague: &Vague<'_>, group: &'c Group) -> Option<Vec<Joint<'c>>> {
    let one = Interval { low: 1.0, high: 1.0 };
    let mut all: Vec<Joint<'c>> = vec![(one, Vec::new())];
    for part in &group.parts {
        let mut wider = Vec::new();
        for (rate, assignments) in options(vague, part)? {
            for (before, known) in &all {
                let low = before.low * rate.low;
                let high = before.high * rate.high;
                if high.is_nan() || low < 0.0 {
                    return None;
                }
                let mut joined = known.clone();
                joined.extend(assignments.iter().copied());
                wider.push((Interval { low, high }, joined));
            }
        }
        all = wider;
    }
    Some(all)
}

fn options<'c>(vague: &Vague<'_>, part: &'c [Command]) -> Option<Vec<Joint<'c>>> {
    let mut found = Vec::new();
    for command in part {
        let guard = vague.truth(&command.guard)?;
        if !guard.holds {
            continue;
        }
        for update in &command.updates {
            let mut rate = vague.number(&update.rate)?;
            if guard.fails {
                rate.low = 0.0;
            }
            found.push((
                rate,
                update
                    .assignments
                    .iter()
                    .map(|(variable, value)| (*variable, value))
                    .collect(),
            ));
        }
    }
    Some(found)
}

/// Whether a formula without questions in it may hold.
pub(super) fn truth(vague: &Vague<'_>, formula: &Formula) -> Option<Maybe> {
    match formula {
        Formula::Plain(expr) => vague.truth(expr),
        Formula::Not(a) => Some(truth(vague, a)?.not()),
        Formula::And(a, b) => Some(truth(vague, a)?.and(truth(vague, b)?)),
        Formula::Or(a, b) => Some(truth(vague, a)?.not().and(truth(vague, b)?.not()).not()),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range of a variable, where the cast stops at the ends"
)]
fn whole(value: f64) -> i64 {
    value as i64
}
