//! Counters whose end is out of reach.
//!
//! `reopens : [0..9999]` with the guard `reopens < 9999` differs from a counter without an end only in its last value. Every value
//! differs from the next by its distance to the end, so no two of them are exactly alike, and yet from some value on nothing but the
//! end differs. Such a run of values is treated as one value here. The chain that comes of it is the one as written until
//! the counter has risen through the whole run without being set back. [`Unreached::proven`] bounds the probability of that on the
//! chain itself. Where the bound is not small enough, the session builds the chain without this reduction.

use super::runs::{self, Lead, Place};
use super::signature::{Joint, touching};
use crate::chain::{Chain, Rises};
use crate::program::Program;
use crate::solve::{self, Again};

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
    /// With `q` the largest probability of one more rise after a rise, `n` rises in a row have at most the probability `q^(n-1)`. In a chain
    /// of levels, with `q` that of one more rise on the same level, see [`within_levels`].
    pub(crate) fn proven(&self, chain: &Chain, rises: &Rises) -> Option<f64> {
        if rises.unclear {
            return None;
        }
        if rises.moves.is_empty() {
            return Some(f64::NEG_INFINITY);
        }
        let levels = chain.levels.as_ref().map_or(1, |levels| levels.plan.levels());
        let exponent = |q: f64, again: Again| match again {
            Again::OnTheLevel => within_levels(self.rises, levels, q),
            Again::Anywhere => within_levels(self.rises, 1, q),
        };
        let found = solve::rises_again(chain, rises, ACCEPTED, exponent).ok()?;
        Some(found).filter(|exponent| *exponent <= ACCEPTED)
    }
}

/// The decimal logarithm of a bound on the probability of `rises` rises on at most so many `levels`, where after a rise another one follows
/// on the same level with a probability of at most `q`.
///
/// Each level has a first rise for nothing. Of the trials whether another one follows, at least `rises - levels` must succeed before
/// as many fail as there are levels. That is a tail of a binomial distribution, bounded as Chernoff does.
fn within_levels(rises: i64, levels: usize, q: f64) -> f64 {
    let failures = (levels - 1) as f64;
    let successes = rises as f64 - levels as f64;
    let share = successes / (successes + failures);
    if successes <= 0.0 || share <= q {
        return 0.0;
    }
    let failing = match levels {
        1 => 0.0,
        _ => failures * ((1.0 - q) / (1.0 - share)).log10(),
    };
    successes * (q / share).log10() + failing
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
    if declared.boolean || declared.high.abs_diff(declared.low) < LEAST_RUN.unsigned_abs() {
        return None;
    }
    let commands = touching(joint, variable);
    let place = Place {
        program,
        joint,
        commands: &commands,
        variable,
    };
    // At a glance: two neighbours in the middle behave alike, or nothing does.
    let middle = declared.low + (declared.high - declared.low) / 2;
    let here = place.run(middle, middle + 1)?;
    let (mut first, mut last) = (middle, middle + 1);
    let mut below = Vec::new();
    let runs = runs::find(place, |_| false)?;
    // The values around the middle that differ from it by nothing but their distance to the end.
    let around = runs.partition_point(|run| run.last < middle);
    for run in runs[..=around].iter().rev() {
        match below.is_empty() && here.continues(run) {
            true => first = first.min(run.first),
            false => below.push(run),
        }
    }
    for run in runs[around..].iter().take_while(|run| here.continues(run)) {
        last = last.max(run.last);
    }
    let (mut step, mut entered) = (0, first);
    let mut constants = Vec::new();
    let mut enter = |value: i64| {
        if (first..=last).contains(&value) {
            entered = entered.max(value);
        }
        value <= last
    };
    // Only a counter that begins at its end gets there without rising through the run.
    if !enter(declared.init) {
        return None;
    }
    // Within the run the counter is set to constants, or rises by the same number everywhere.
    if !here.closed {
        return None;
    }
    for lead in &here.leads {
        match *lead {
            Lead::To(value) => {
                if !enter(value) {
                    return None;
                }
                constants.push(value);
            }
            Lead::By(shift) if shift >= 0 => step = step.max(shift),
            Lead::By(_) => return None,
        }
    }
    for run in below {
        // Where it is set to the value of another variable, the run may be entered anywhere.
        if !run.closed {
            return None;
        }
        for lead in &run.leads {
            if !enter(lead.from(run.first)) || !enter(lead.from(run.last)) {
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

#[cfg(test)]
mod tests {
    use super::within_levels;

    /// The probability itself, by adding up where the last failure comes.
    fn exact(rises: u32, levels: u32, q: f64) -> f64 {
        let (least, failures) = (rises - levels, levels);
        // At most `least - 1` successes before the last failure is the contrary.
        let mut term = (1.0 - q).powi(i32::try_from(failures).unwrap());
        let mut few = 0.0;
        for successes in 0..least {
            few += term;
            term *= q * f64::from(successes + failures) / f64::from(successes + 1);
        }
        1.0 - few
    }

    #[test]
    fn the_bound_is_above_the_probability() {
        for rises in [20, 60, 200] {
            for levels in [1, 2, 5, 15] {
                for q in [0.05, 0.3, 0.6, 0.9, 0.97] {
                    let bound = 10f64.powf(within_levels(i64::from(rises), levels as usize, q));
                    let exact = exact(rises, levels, q);
                    assert!(bound >= exact - 1e-9, "{rises} {levels} {q}: {bound} {exact}");
                }
            }
        }
        // On one level it is exact.
        assert!((within_levels(101, 1, 0.1) + 100.0).abs() < 1e-9);
        // Far above what is to be expected, it is small.
        assert!(within_levels(9_999, 101, 0.9) < -150.0);
    }
}
