//! The search: a grid of settings, each solved, and the one with the least contention that keeps to the time.

use rayon::prelude::*;
use retryguard_model::{Constants, Value};
use serde_json::Map;

use crate::{Error, Lowered};

/// One setting of the parameters, and its mean times over the availabilities.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The model's constants that the search decides.
    pub chosen: Constants,
    /// The mean total time.
    pub total: f64,
    /// The mean time for which the network is held.
    pub contention: f64,
}

/// Which part of a policy is searched: the settings to try, and how to describe them.
pub struct Search {
    /// The model without the pattern, which every other is compared with.
    pub(crate) plain: Lowered,
    /// The name of that, in words and as a key.
    pub without: (&'static str, &'static str),
    /// The settings to try, the policy's own first.
    pub(crate) grid: Vec<Constants>,
    /// A setting in words; the number is the model's unit of time in seconds.
    pub words: fn(&Constants, f64) -> String,
    /// A setting for other programs.
    pub keys: fn(&Constants, f64) -> Map<String, serde_json::Value>,
    /// How the settings are written in a policy: keys of a service.
    pub advice: fn(&Constants, f64) -> String,
}

/// The result of a search.
pub struct Found {
    /// Without the pattern.
    pub plain: Candidate,
    /// The policy as it is written.
    pub written: Candidate,
    /// The least contention within the time that is allowed.
    pub tuned: Candidate,
    /// Every setting that was tried.
    pub all: Vec<Candidate>,
}

impl Search {
    /// Solves every setting. `more_time` is how much more total time than without the pattern is allowed, in percent; `passes`
    /// says whether the keys of a setting may be proposed.
    ///
    /// # Errors
    /// Where a model cannot be solved, or no setting keeps to the time.
    pub fn run(
        &self,
        lowered: &Lowered,
        more_time: f64,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<Found, Error> {
        let plain = solved(&self.plain, &Constants::new())?;
        let all: Vec<Candidate> = self
            .grid
            .par_iter()
            .map(|chosen| solved(lowered, chosen))
            .collect::<Result<_, _>>()?;
        let limit = plain.total * (1.0 + more_time / 100.0);
        let tuned = all
            .iter()
            .filter(|candidate| candidate.total <= limit)
            .filter(|candidate| passes(&(self.advice)(&candidate.chosen, lowered.unit)))
            .min_by(|a, b| a.contention.total_cmp(&b.contention));
        let Some((tuned, written)) = tuned.zip(all.first()) else {
            let least = all.iter().map(|c| c.total).fold(f64::INFINITY, f64::min);
            return Err(Error::NothingWithin {
                allowed: more_time,
                least: more(least, plain.total),
            });
        };
        let (tuned, written) = (tuned.clone(), written.clone());
        Ok(Found {
            plain,
            written,
            tuned,
            all,
        })
    }
}

/// By how many percent `value` is above `base`.
#[must_use]
pub fn more(value: f64, base: f64) -> f64 {
    (value / base - 1.0) * 100.0
}

/// The mean of both times over the availabilities, with `chosen` in place of what the policy says.
fn solved(world: &Lowered, chosen: &Constants) -> Result<Candidate, Error> {
    let mut constants = world.constants.clone();
    constants.extend(chosen.iter().map(|(name, value)| (name.clone(), *value)));
    let rows = Lowered {
        constants,
        text: world.text,
        availabilities: world.availabilities.clone(),
        unit: world.unit,
        losses: Vec::new(),
    }
    .solve()?;
    let mean = |name: &str| -> Result<f64, Error> {
        let values: Vec<f64> = rows
            .iter()
            .filter(|row| row.answer.name.as_deref() == Some(name))
            .map(|row| row.answer.outcome.number())
            .collect::<Option<_>>()
            .ok_or(Error::TooLarge)?;
        Ok(values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    Ok(Candidate {
        chosen: chosen.clone(),
        total: mean("total")?,
        contention: mean("contention")?,
    })
}

/// A time as a policy writes it.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

/// A time for a policy file, to the microsecond, in the largest unit that needs no fraction.
pub(crate) fn policy_time(seconds: f64) -> String {
    let micros = format!("{:.0}", seconds * 1e6);
    if let Some(whole) = micros.strip_suffix("000000") {
        return format!("{whole}s");
    }
    match micros.strip_suffix("000") {
        Some(whole) => format!("{whole}ms"),
        None => format!("{micros}us"),
    }
}

pub(crate) fn number(constants: &Constants, name: &str) -> f64 {
    match constants.get(name) {
        Some(Value::Int(value)) => *value as f64,
        Some(Value::Real(value)) => *value,
        _ => f64::NAN,
    }
}

pub(crate) fn whole(constants: &Constants, name: &str) -> i64 {
    match constants.get(name) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    }
}

pub(crate) fn own(lowered: &Lowered, names: &[&str]) -> Result<Constants, Error> {
    names
        .iter()
        .map(|name| {
            let value = lowered.constants.get(*name);
            let value = value.ok_or_else(|| Error::NoConstant((*name).to_owned()))?;
            Ok(((*name).to_owned(), *value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_needs_no_fraction() {
        for (seconds, text) in [
            (0.4, "400ms"),
            (2.0, "2s"),
            (0.0125, "12500us"),
            (90.0, "90s"),
            (0.0, "0us"),
            (1.5, "1500ms"),
        ] {
            assert_eq!(policy_time(seconds), text);
        }
    }
}
