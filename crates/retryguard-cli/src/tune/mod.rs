//! `retryguard tune`: the retries, or the breaker, that hold the least of the network for at most so much more time.

mod breaker;
mod clean;
mod picture;
mod retries;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;
use rayon::prelude::*;
use retryguard_model::{Constants, Value};
use serde_json::{Map, json};

use crate::check::policy::{Lowered, Pattern, World};
use crate::check::{Wrong, exit};

/// Find the parameters of retries or of a breaker that minimise contention for at most x % more total time.
#[derive(Args, Debug)]
pub(crate) struct Tune {
    #[command(flatten)]
    world: World,
    /// How much more total time than without the pattern may be spent, in percent, averaged over the availabilities.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    more_time: f64,
    /// Write the trade-off as a picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One setting of the parameters, and what it comes to on average over the availabilities.
#[derive(Clone, Debug)]
struct Candidate {
    /// The model's constants that the search decides.
    chosen: Constants,
    total: f64,
    contention: f64,
}

/// What of a policy is searched: the settings to try, and how to speak of them.
struct Search {
    /// The model without the pattern, which every other is compared with.
    plain: Lowered,
    /// What that is called, in words and as a key.
    without: (&'static str, &'static str),
    /// The settings to try, the policy's own first.
    grid: Vec<Constants>,
    words: fn(&Constants, f64) -> String,
    keys: fn(&Constants, f64) -> Map<String, serde_json::Value>,
    /// How the settings are written in a policy: keys of a service.
    advice: fn(&Constants, f64) -> String,
}

/// What a search came to.
struct Found {
    plain: Candidate,
    written: Candidate,
    tuned: Candidate,
    all: Vec<Candidate>,
}

impl Tune {
    pub(crate) fn run(&self) -> ExitCode {
        exit(self.answer())
    }

    fn answer(&self) -> anyhow::Result<()> {
        if !(self.more_time >= 0.0 && self.more_time.is_finite()) {
            return Err(Wrong(anyhow!(
                "--more-time {}: give a percentage of at least 0",
                self.more_time
            ))
            .into());
        }
        let mut world = self.world.clone();
        world.pattern = world.pattern.or(Some(Pattern::Retry));
        let lowered = world.lower().map_err(Wrong)?;
        let search = match world.pattern {
            Some(Pattern::Breaker) => breaker::search(&world, &lowered)?,
            _ => retries::search(&lowered)?,
        };
        let service = clean::Service::of(&world)?;
        let found = self.search(&lowered, &search, &service)?;
        if let Some(path) = &self.svg {
            let text = picture::svg(&found, self.more_time, search.without.0);
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        crate::output::print(&if self.json {
            self.json(&lowered, &search, &found)
        } else {
            text(&lowered, &search, &found)
        })
    }

    fn search(&self, lowered: &Lowered, search: &Search, service: &clean::Service) -> anyhow::Result<Found> {
        let plain = solved(&search.plain, &Constants::new())?;
        let all: Vec<Candidate> = search
            .grid
            .par_iter()
            .map(|chosen| solved(lowered, chosen))
            .collect::<anyhow::Result<_>>()?;
        let written = all.first().context("the policy itself is a candidate")?.clone();
        let limit = plain.total * (1.0 + self.more_time / 100.0);
        let tuned = all
            .iter()
            .filter(|candidate| candidate.total <= limit)
            .filter(|candidate| service.passes(&(search.advice)(&candidate.chosen, lowered.unit)))
            .min_by(|a, b| a.contention.total_cmp(&b.contention))
            .with_context(|| {
                let least = all.iter().map(|c| c.total).fold(f64::INFINITY, f64::min);
                format!(
                    "no setting that passes `retryguard lint` stays within {} % more time: the quickest of all takes {:.1} % more, give more than that with --more-time",
                    self.more_time,
                    more(least, plain.total)
                )
            })?
            .clone();
        Ok(Found {
            plain,
            written,
            tuned,
            all,
        })
    }

    fn json(&self, lowered: &Lowered, search: &Search, found: &Found) -> String {
        let one = |candidate: &Candidate| {
            let mut keys = (search.keys)(&candidate.chosen, lowered.unit);
            keys.insert("totalTime".to_owned(), json!(candidate.total));
            keys.insert("contentionTime".to_owned(), json!(candidate.contention));
            keys
        };
        let mut out = json!({
            "losses": lowered.losses,
            "moreTimePercent": self.more_time,
            "candidates": found.all.len(),
            "asWritten": one(&found.written),
            "tuned": one(&found.tuned),
            "policy": (search.advice)(&found.tuned.chosen, lowered.unit),
        });
        out[search.without.1] =
            json!({"totalTime": found.plain.total, "contentionTime": found.plain.contention});
        format!("{out:#}\n")
    }
}

fn text(lowered: &Lowered, search: &Search, found: &Found) -> String {
    let mut out = String::new();
    for loss in &lowered.losses {
        let _ = writeln!(out, "# {loss}");
    }
    let costs = |candidate: &Candidate| {
        format!(
            "total {:+.1} %, contention {:+.1} %",
            more(candidate.total, found.plain.total),
            more(candidate.contention, found.plain.contention)
        )
    };
    let _ = writeln!(out, "{}: {}", search.without.0, costs(&found.plain));
    for (name, candidate) in [("as written", &found.written), ("tuned", &found.tuned)] {
        let settings = (search.words)(&candidate.chosen, lowered.unit);
        let _ = writeln!(out, "{name}: {settings}: {}", costs(candidate));
    }
    let _ = writeln!(
        out,
        "# in the policy, under the service (it passes `retryguard lint`):"
    );
    for line in (search.advice)(&found.tuned.chosen, lowered.unit).lines() {
        let _ = writeln!(out, "    {line}");
    }
    out
}

/// The mean of both times over the availabilities, with `chosen` in place of what the policy says.
fn solved(world: &Lowered, chosen: &Constants) -> anyhow::Result<Candidate> {
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
    let mean = |name: &str| -> anyhow::Result<f64> {
        let values: Vec<f64> = rows
            .iter()
            .filter(|row| row.answer.name.as_deref() == Some(name))
            .map(|row| row.answer.outcome.number())
            .collect::<Option<_>>()
            .context(
                "the model of this policy is too large to solve: allow fewer retries, or fewer failures",
            )?;
        Ok(values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    Ok(Candidate {
        chosen: chosen.clone(),
        total: mean("total")?,
        contention: mean("contention")?,
    })
}

/// By how many percent `value` is above `base`.
fn more(value: f64, base: f64) -> f64 {
    (value / base - 1.0) * 100.0
}

/// A time as a policy writes it.
fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

/// A time for a policy file, to the microsecond.
fn micros(seconds: f64) -> String {
    format!("{:.0}us", seconds * 1e6)
}

fn number(constants: &Constants, name: &str) -> f64 {
    match constants.get(name) {
        Some(Value::Int(value)) => *value as f64,
        Some(Value::Real(value)) => *value,
        _ => f64::NAN,
    }
}

fn whole(constants: &Constants, name: &str) -> i64 {
    match constants.get(name) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    }
}

fn own(lowered: &Lowered, names: &[&str]) -> anyhow::Result<Constants> {
    names
        .iter()
        .map(|name| {
            let value = lowered.constants.get(*name);
            let value = value.with_context(|| format!("the model has no constant {name}"))?;
            Ok(((*name).to_owned(), *value))
        })
        .collect()
}
