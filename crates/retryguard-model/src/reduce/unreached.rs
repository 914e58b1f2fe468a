//! Counters whose end is out of reach.
//!
//! `reopens : [0..9999]` with the guard `reopens < 9999` differs from a counter without an end only in its last value. Every value
//! differs from the next by its distance to the end, so no two of them are exactly alike, and yet from some value on nothing but the
//! end differs. Such a run of values is treated as one value here. The chain that comes of it is the one as written until
//! the counter has risen through the whole run without being set back. [`Unreached::proven`] bounds the probability of that on the
//! chain itself. Where the bound is not small enough, the session builds the chain without this reduction.

use super::signature::{Joint, Residue, Target, touching};
use crate::chain::{Chain, Rises};
use crate::expr::Expr;
use crate::program::Program;
use crate::solve;

/// Ranges longer than this are left alone.
const MAX_VALUES: u64 = 100_000;
/// Shorter runs are hardly ever proven to be out of reach: most of them are the phases of timers, which are meant to end.
const LEAST_RUN: i64 = 300;
/// The decimal logarithm of the largest accepted probability of reaching the end, each time that the counter enters the run.
/// No answer in doubles can show it: even a chain that enters the run 10^60 times before its target is right to 40 digits.
const ACCEPTED: f64 = -100.0;
/// A run of values that only their distance to its end tells apart.
#[derive(Clone, Debug)]
pub(crate) struct Unreached {
    pub(crate) variable: usize,
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// The value that stands for all of the run. Nothing sets the counter to it, so that a step to it leaves the counter alone.
    pub(crate) stand_in: i64,
    /// Rises that are needed at least from where the run is entered to beyond its end.
    rises: i64,
}

impl Unreached {
    pub(super) fn apply(&self, state: &mut [i64]) {
        let value = &mut state[self.variable];
        if (self.first..=self.last).contains(value) {
            *value = self.stand_in;
        }
    }

    /// What a transition from `value` to `next` does to the counter, before values are taken as one.
    pub(crate) fn step(&self, value: i64, next: i64) -> Step {
        match next.cmp(&self.stand_in) {
            _ if value != self.stand_in => Step::Other,
            std::cmp::Ordering::Greater if next <= self.last => Step::Rise,
            std::cmp::Ordering::Less if next >= self.first => Step::Reset,
            _ => Step::Other,
        }
    }

    /// The decimal logarithm of a bound on the probability that the counter, once in the run, rises to its end before it is set back
    /// or the question is decided. `None` where no bound that is small enough was found.
    ///
    /// With `q` the largest probability of one more rise after a rise, `n` rises in a row have at most the probability `q^(n-1)`.
    pub(crate) fn proven(&self, chain: &Chain, rises: &Rises) -> Option<f64> {
        if rises.unclear {
            return None;
        }
        if rises.moves.is_empty() {
            return Some(f64::NEG_INFINITY);
        }
        let exponent = |q: f64| (self.rises - 1) as f64 * q.log10();
        let found = solve::rises_again(chain, rises, |q| exponent(q) <= ACCEPTED).ok()?;
        Some(exponent(found)).filter(|exponent| *exponent <= ACCEPTED)
    }
}

/// What becomes of a counter within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Rise,
    /// It is set to a value of the run, and begins to rise anew.
    Reset,
    /// It stays, or leaves the run.
    Other,
}

/// What a command does at one value of the counter; `None` where its guard is false.
type At = Option<Residue>;

pub(super) fn find(program: &Program, joint: &Joint, skip: impl Fn(usize) -> bool) -> Vec<Unreached> {
    if program.init.is_some() {
        return Vec::new();
    }
    (0..program.variables.len())
        .filter(|variable| !skip(*variable))
        .filter_map(|variable| of(program, joint, variable))
        .collect()
}

fn of(program: &Program, joint: &Joint, variable: usize) -> Option<Unreached> {
    let declared = &program.variables[variable];
    let distance = declared.high.abs_diff(declared.low);
    if declared.boolean || distance >= MAX_VALUES || distance < LEAST_RUN.unsigned_abs() {
        return None;
    }
    let commands = touching(joint, variable);
    let at = |value: i64| -> (Vec<At>, Vec<Vec<Expr>>) {
        let residues = commands
            .iter()
            .map(|place| Residue::new(&joint.commands[*place], variable, value));
        (residues.collect(), joint.observed_at(variable, value))
    };
    // At a glance: two neighbours in the middle behave alike, or nothing does.
    let middle = declared.low + (declared.high - declared.low) / 2;
    let (here, next) = (at(middle), at(middle + 1));
    if here.1 != next.1 || !alike(&here.0, &next.0, middle) {
        return None;
    }
    let same = |value: i64| {
        let other = at(value);
        other.1 == here.1 && alike_apart(&here.0, middle, &other.0, value)
    };
    let mut first = middle;
    while first > declared.low && same(first - 1) {
        first -= 1;
    }
    let mut last = middle + 1;
    while last < declared.high && same(last + 1) {
        last += 1;
    }
    let (mut step, mut entered) = (0, first);
    let mut constants = Vec::new();
    let mut enter = |value: i64| {
        if (first..=last).contains(&value) {
            entered = entered.max(value);
        }
        value <= last
    };
    enter(declared.init);
    // Within the run the counter is set to constants, or rises by the same number everywhere: two neighbours show which.
    for (a, b) in targets(&here.0).zip(targets(&next.0)) {
        match (a, b) {
            (Target::Value(a), Target::Value(b)) if a == b => {
                if !enter(*a) {
                    return None;
                }
                constants.push(*a);
            }
            (Target::Value(a), Target::Value(_)) => step = step.max(a - middle),
            _ => return None,
        }
    }
    for value in declared.low..first {
        for target in targets(&at(value).0) {
            // Where it is set to the value of another variable, the run may be entered anywhere.
            let Target::Value(to) = target else { return None };
            if !enter(*to) {
                return None;
            }
        }
    }
    // A counter that does not rise, or a run that ends with the range, is left to the exact reductions.
    if step == 0 || last == declared.high || last - first < LEAST_RUN {
        return None;
    }
    // High enough to be above what the counter is set to, and low enough to rise from.
    let stand_in = last - step;
    if constants.iter().any(|value| *value >= stand_in) {
        return None;
    }
    let rises = (last + 1 - entered + step - 1) / step;
    (rises > 1).then_some(Unreached {
        variable,
        first,
        last,
        stand_in,
        rises,
    })
}

/// Whether a command does the same at `value` and at the value after it, but for rises.
fn alike(here: &[At], next: &[At], value: i64) -> bool {
    alike_apart(here, value, next, value + 1)
}

fn alike_apart(here: &[At], value: i64, there: &[At], other: i64) -> bool {
    here.iter().zip(there).all(|pair| match pair {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.guard == b.guard
                && a.rewards == b.rewards
                && a.alternatives.len() == b.alternatives.len()
                && a.alternatives
                    .iter()
                    .zip(&b.alternatives)
                    .all(|(a, b)| a.0 == b.0 && a.1 == b.1 && same_target(&a.2, value, &b.2, other))
        }
        _ => false,
    })
}

/// Both set the counter to one constant, or both leave it or let it rise by the same number.
fn same_target(a: &Target, value: i64, b: &Target, other: i64) -> bool {
    let (Target::Value(a), Target::Value(b)) = (a, b) else {
        return false;
    };
    a == b || (a.checked_sub(value) == b.checked_sub(other) && *a >= value)
}

fn targets(here: &[At]) -> impl Iterator<Item = &Target> {
    let alternatives = here.iter().flatten().flat_map(|residue| &residue.alternatives);
    alternatives.map(|(_, _, target)| target)
}
