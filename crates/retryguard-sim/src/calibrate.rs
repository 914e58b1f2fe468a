//! From what was observed of a service to a scenario that behaves like it.
//!
//! The observations are windows of time, each with its requests, failures and latencies. Three things are read from them:
//! the time of the work, from windows in which hardly a request waits; how much is done at once, from windows in which
//! many do; and the share that fails whatever the load. Where no window is saturated, how much is done at once is searched
//! for: the scenario is simulated with several numbers of workers, and the one whose latencies are closest is taken.

mod csv;
mod observed;
pub mod prometheus;
mod written;

use std::time::Duration;

pub use csv::{CsvError, read_csv};
pub use observed::{Observed, Window};

use crate::{
    client_policy::named,
    comparison::{Plan, compare},
    scenario::Scenario,
    streams::Seed,
};
use observed::LogNormal;

/// What is known beside the observations.
#[derive(Debug, Clone)]
pub struct Known {
    /// The name of the service.
    pub service: String,
    /// How long callers wait; the longest observed latency where it is not known.
    pub deadline: Option<Duration>,
    /// How many requests it works on at once, where that is known.
    pub workers: Option<u32>,
    /// How many replicas it has.
    pub replicas: u32,
    /// Where the observations come from, in words.
    pub source: String,
}

/// A scenario with its fit.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The text of the scenario file.
    pub scenario: String,
    /// Observed beside simulated.
    pub fit: Vec<Fitted>,
    /// What the reader must know about it.
    pub notes: Vec<String>,
}

impl Calibrated {
    /// The fit as a table, with what must be known about it, and in a sentence.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!("{:24}{:>12}{:>12}\n", "without retries", "observed", "simulated");
        for row in &self.fit {
            let name = format!("{} ({})", row.name, row.unit);
            out += &format!("{name:24}{:>12.1}{:>12.1}\n", row.observed, row.simulated);
        }
        for note in &self.notes {
            out += &format!("note: {note}\n");
        }
        out + &self.sentence() + "\n"
    }

    /// How close the scenario comes to the service.
    fn sentence(&self) -> String {
        let row = |name: &str| self.fit.iter().find(|row| row.name == name);
        let (Some(success), Some(tail)) = (row("successful"), row("p95")) else {
            return "There is nothing to compare.".to_owned();
        };
        let close = (success.observed - success.simulated).abs() <= CLOSE_POINTS
            && (tail.simulated - tail.observed).abs() <= CLOSE_TAIL * tail.observed;
        let verdict = if close {
            "close enough to compare policies in it"
        } else {
            "observe a time with calm and busy parts, or give --workers and --deadline"
        };
        format!(
            "The scenario serves {:.1} % of the requests where {:.1} % were served, 95 % of them within {:.0} ms where it took {:.0} ms: \
             {verdict}.",
            success.simulated, success.observed, tail.simulated, tail.observed
        )
    }
}

/// A scenario is close where it serves as many requests to within so many points, and its 95th percentile differs by at most this
/// share.
const CLOSE_POINTS: f64 = 5.0;
const CLOSE_TAIL: f64 = 0.25;

/// One number, as it was observed and as the scenario has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// As it was observed.
    pub observed: f64,
    /// As the scenario has it.
    pub simulated: f64,
}

/// Why there is no scenario.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CalibrateError {
    /// There is nothing to fit to.
    TooFew {
        /// How many were observed.
        requests: f64,
    },
    /// No latencies were observed.
    NoLatency,
    /// The scenario that was written cannot be read: a fault of this program.
    Unreadable(String),
}

impl std::fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFew { requests } => write!(
                f,
                "{:.0} of at least {LEAST_REQUESTS} requests that are needed were observed: look at a longer time or at another \
                 service",
                requests.max(0.0)
            ),
            Self::NoLatency => {
                f.write_str("no latencies were observed: name the histogram of request durations")
            }
            Self::Unreadable(mistakes) => write!(f, "the written scenario has mistakes:\n{mistakes}"),
        }
    }
}

impl std::error::Error for CalibrateError {}

/// Fewer requests than this say little about quantiles.
pub const LEAST_REQUESTS: u32 = 200;

/// Workers, queue and the rest of the service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    work: LogNormal,
    workers: u32,
    queue: Option<u32>,
    errors: f64,
    deadline: Duration,
}

/// Writes a scenario that behaves as was observed.
///
/// # Errors
/// Where too little was observed.
pub fn calibrate(observed: &Observed, known: &Known) -> Result<Calibrated, CalibrateError> {
    let requests = observed.requests();
    if requests < f64::from(LEAST_REQUESTS) {
        return Err(CalibrateError::TooFew { requests });
    }
    let calm = observed.calm();
    let work = calm.work().ok_or(CalibrateError::NoLatency)?;
    let saturated = observed.saturated(&work);
    let deadline = known
        .deadline
        .unwrap_or_else(|| Duration::from_secs_f64((observed.quantile(0.999) * 1.5).clamp(1.0, 3600.0)));
    let mut shape = Shape {
        work,
        workers: known.workers.unwrap_or(0),
        queue: None,
        errors: calm.failing(),
        deadline,
    };
    let mut notes = Vec::new();
    // What is served at once while requests wait: all workers, where the service can do no more.
    let estimate = |full: &Observed| full.served_rate() * work.mean();
    if let Some(full) = saturated
        .as_ref()
        .filter(|full| full.failing() > shape.errors + 0.02)
    {
        if known.workers.is_none() {
            shape.workers = rounded(estimate(full));
        }
        // Requests were rejected, so that those that were not waited behind a full queue.
        let waited = (full.quantile(0.95) / work.mean() - 1.0).max(0.0);
        shape.queue = Some(rounded(f64::from(shape.workers) * waited));
    } else if let (Some(full), None) = (&saturated, known.workers) {
        // Requests waited and none was rejected: the service was busy, and may be able to do more.
        shape.workers = searched(observed, known, &shape, estimate(full))?;
    } else if known.workers.is_none() {
        let least = observed.busiest_rate() * shape.work.mean() * 1.02;
        shape.workers = searched(observed, known, &shape, least.ceil())?;
        notes.push(
            "no window was saturated: the number of workers is the one whose simulated latencies are closest, and the \
             capacity is uncertain. Observe a busier time, or give --workers"
                .to_owned(),
        );
    }
    if shape.queue.is_none() {
        notes.push(queue_note(&shape));
    }
    let fit = fitted(observed, known, &shape)?;
    Ok(Calibrated {
        scenario: written::scenario(observed, known, &shape, &fit, &notes),
        fit,
        notes,
    })
}

/// Why the queue is unlimited. Failures of the calmest windows are taken for errors, so that of a service that was never calm its
/// rejections are.
fn queue_note(shape: &Shape) -> String {
    let percent = 100.0 * shape.errors;
    if shape.errors > NEVER_CALM {
        return format!(
            "{percent:.0} % of the requests failed in the calmest windows, too: they are taken for errors whatever the load, and the \
             queue is taken to be unlimited. If the service rejected them for load, observe a calm time as well, and give --workers"
        );
    }
    "failures did not rise with the load: the queue is taken to be unlimited. Write `queue:` where you know better".to_owned()
}

/// So many failures at the calmest time are more likely rejections than errors.
const NEVER_CALM: f64 = 0.05;

/// A number of workers or places from an estimate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits"
)]
fn rounded(estimate: f64) -> u32 {
    estimate.round().clamp(1.0, 1e6) as u32
}

/// Tries numbers of workers, from the least that are possible, and takes the one with the closest latencies.
fn searched(observed: &Observed, known: &Known, shape: &Shape, least: f64) -> Result<u32, CalibrateError> {
    let least = least.max(1.0);
    let mut best: Option<(f64, u32)> = None;
    let mut before = 0;
    for step in 0..15 {
        let workers = match step {
            0 => rounded(least),
            _ => rounded((least * 1.12_f64.powi(step)).ceil()),
        };
        if workers == before {
            continue;
        }
        before = workers;
        let tried = Shape {
            workers,
            ..shape.clone()
        };
        let distance: f64 = fitted(observed, known, &tried)?
            .iter()
            .filter(|fitted| fitted.unit == "ms")
            .map(|fitted| {
                (fitted.simulated.max(0.1) / fitted.observed.max(0.1))
                    .ln()
                    .powi(2)
            })
            .sum();
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, workers));
        }
    }
    Ok(best.map_or(1, |(_, workers)| workers))
}

/// Simulates the scenario without any retry, and puts its numbers beside what was observed.
fn fitted(observed: &Observed, known: &Known, shape: &Shape) -> Result<Vec<Fitted>, CalibrateError> {
    let text = written::scenario(observed, known, shape, &[], &[]);
    let scenario = Scenario::parse(&text, &known.service, &mut |_| Err("there is none".to_owned()))
        .map_err(|mistakes| CalibrateError::Unreadable(mistakes.to_string()))?;
    let plan = Plan {
        seed: Seed(1),
        replications: 1,
        threads: 1,
    };
    let policies: Vec<_> = named("none").into_iter().collect();
    let summary = compare(&scenario.world, &policies, &[], &plan, &|_| {});
    let mean = |key: &str| summary.first().map_or(f64::NAN, |summary| summary.mean(key));
    let row = |name, unit, observed, simulated| Fitted {
        name,
        unit,
        observed,
        simulated,
    };
    Ok(vec![
        row(
            "requests a second",
            "/s",
            observed.requests() / observed.length().as_secs_f64().max(1e-9),
            mean("calls") / observed.length().as_secs_f64().max(1e-9),
        ),
        row(
            "successful",
            "%",
            (1.0 - observed.failing()) * 100.0,
            mean("successRate") * 100.0,
        ),
        row("mean", "ms", observed.mean() * 1e3, mean("meanMs")),
        row("p50", "ms", observed.quantile(0.5) * 1e3, mean("p50Ms")),
        row("p95", "ms", observed.quantile(0.95) * 1e3, mean("p95Ms")),
        row("p99", "ms", observed.quantile(0.99) * 1e3, mean("p99Ms")),
    ])
}

#[cfg(test)]
mod tests;
