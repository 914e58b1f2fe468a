//! A policy in the user's units: how long calls take, what part of it fails, and which assumption matters most.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{CALLS, Costs, Error, Found, Influence, Lowered, Pattern, Row, Search, answers, more};

/// Influences below this, in percent for 1 %, are not printed as text.
const SLIGHT: f64 = 0.005;

/// What a policy costs, and what that depends on.
pub struct Report {
    service: String,
    response: f64,
    /// What the pattern is compared with, in words and as a key.
    without_name: (&'static str, &'static str),
    written: Vec<Costs>,
    without: Vec<Costs>,
    influences: Vec<Influence>,
    /// The settings in words, the keys of a policy, and what they cost.
    tuned: Option<(String, String, Vec<Costs>)>,
}

impl Report {
    /// Of a policy's service: its model, the rows that it was solved to, the same service's model with its retries, and the
    /// result of a search where one was made.
    ///
    /// # Errors
    /// Where a model cannot be solved.
    pub fn new(
        service: String,
        lowered: &Lowered,
        rows: &[Row],
        retries: &Lowered,
        better: Option<(&Search, &Found)>,
    ) -> Result<Report, Error> {
        let written = lowered.costs_of(rows)?;
        let tuned = match better {
            None => None,
            Some((search, found)) => Some(proposal(lowered, search, found)?),
        };
        Ok(Report {
            service,
            response: lowered.response(),
            without_name: match lowered.pattern() {
                Pattern::Breaker => ("without a breaker", "withoutBreaker"),
                Pattern::Retry => ("without retries", "withoutRetries"),
            },
            without: retries.without_retries().costs()?,
            influences: lowered.influences(&written)?,
            written,
            tuned,
        })
    }

    /// The costs at every availability, and what they depend on.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "{CALLS} calls of {} that succeed, one after the other; a response takes {} on average\n",
            self.service,
            seconds(self.response)
        );
        for (place, costs) in self.written.iter().enumerate() {
            let _ = write!(
                out,
                "availability {}: {} on average, {:.1} % of it on attempts that fail",
                costs.availability,
                seconds(costs.total),
                costs.failing_percent()
            );
            let mut others = vec![(self.without_name.0, &self.without)];
            if let Some((_, _, costs)) = &self.tuned {
                others.push(("tuned", costs));
            }
            for (name, all) in others {
                if let Some(costs) = all.get(place) {
                    let _ = write!(
                        out,
                        "; {name} {} and {:.1} %",
                        seconds(costs.total),
                        costs.failing_percent()
                    );
                }
            }
            out.push('\n');
        }
        let mean = match self.written.len() {
            1 => "",
            _ => ", as a mean over the availabilities",
        };
        for (setting, head) in [
            (
                false,
                "what matters most in the world: the change of the total time for 1 % more",
            ),
            (
                true,
                "what matters most in the policy: the same for 1 % more, or for 1 more of what is counted",
            ),
        ] {
            let _ = writeln!(out, "{head}{mean}");
            let of = self
                .influences
                .iter()
                .filter(|influence| influence.setting == setting);
            for influence in of {
                if influence.total.abs() >= SLIGHT {
                    let _ = writeln!(out, "  {:<45} {:+.2} %", influence.what, influence.total);
                } else {
                    let _ = writeln!(out, "  {:<45} below 0.01 %", influence.what);
                }
            }
        }
        if let Some((words, keys, _)) = &self.tuned {
            let _ = writeln!(out, "tuned: {words}");
            for line in keys.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
        if let Some(sentence) = self.sentence() {
            let _ = writeln!(out, "\n{sentence}");
        }
        out
    }

    /// The lowest availability, at which the pattern matters most, in words.
    fn sentence(&self) -> Option<String> {
        let lowest = |costs: &&Costs, other: &&Costs| costs.availability.total_cmp(&other.availability);
        let written = self.written.iter().min_by(lowest)?;
        let without = self.without.iter().min_by(lowest)?;
        let change = more(written.total, without.total).round();
        let name = self.without_name.0;
        let time = match change.abs() {
            0.0 => format!("as much time as {name}"),
            size if change < 0.0 => format!("{size} % less time than {name}"),
            size => format!("{size} % more time than {name}"),
        };
        let (failing, before) = (
            written.failing_percent().round(),
            without.failing_percent().round(),
        );
        let instead = if failing == before {
            " as well".to_owned()
        } else {
            format!(" instead of {before} %")
        };
        Some(format!(
            "At an availability of {} the calls take {time}, and {failing} % of it is spent on attempts that fail{instead}.",
            written.availability
        ))
    }

    /// With the rows of the model, whose times are in its own units.
    #[must_use]
    pub fn json(&self, rows: &[Row], losses: &[String]) -> String {
        let mut all = answers::json_value(rows, losses);
        let costs = |costs: &[Costs]| -> Vec<Value> { costs.iter().map(costs_json).collect() };
        all["calls"] = json!(CALLS);
        all["responseSeconds"] = json!(self.response);
        all["asWritten"] = json!(costs(&self.written));
        all[self.without_name.1] = json!(costs(&self.without));
        let influences = self.influences.iter().map(|influence| {
            json!({
                "assumption": influence.what,
                "ofThePolicy": influence.setting,
                "totalPercent": influence.total,
                "failingPercent": influence.failing,
            })
        });
        all["influences"] = influences.collect();
        if let Some((_, keys, tuned)) = &self.tuned {
            all["tuned"] = json!(costs(tuned));
            all["policy"] = json!(keys);
        }
        format!("{all:#}\n")
    }
}

/// The tuned settings in words, as keys of a policy, and what they cost.
fn proposal(
    lowered: &Lowered,
    search: &Search,
    found: &Found,
) -> Result<(String, String, Vec<Costs>), Error> {
    let chosen = &found.tuned.chosen;
    let mut other = lowered.clone();
    other
        .constants
        .extend(chosen.iter().map(|(name, value)| (name.clone(), *value)));
    Ok((
        (search.words)(chosen, lowered.unit),
        (search.advice)(chosen, lowered.unit),
        other.costs()?,
    ))
}

fn costs_json(costs: &Costs) -> Value {
    json!({
        "availability": costs.availability,
        "totalSeconds": costs.total,
        "networkSeconds": costs.contention,
        "failingSeconds": costs.failing,
        "failingPercent": costs.failing_percent(),
    })
}

fn seconds(time: f64) -> String {
    match time {
        time if time < 1.0 => format!("{:.0} ms", time * 1e3),
        time if time < 100.0 => format!("{time:.1} s"),
        time => format!("{time:.0} s"),
    }
}
