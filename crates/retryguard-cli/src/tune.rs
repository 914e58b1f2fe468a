//! `retryguard tune`: the retries that hold the least of the network for at most so much more time.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;
use rayon::prelude::*;
use retryguard_model::Value;
use serde_json::json;

use crate::chart::{Figure, Panel};
use crate::check::policy::{Lowered, Pattern, World};
use crate::check::{Wrong, exit};

/// Find the retry parameters that minimise contention for at most x % more total time.
#[derive(Args, Debug)]
pub(crate) struct Tune {
    #[command(flatten)]
    world: World,
    /// How much more total time than without retries may be spent, in percent, averaged over the availabilities.
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
    retries: i64,
    /// Mean waits in units of the model.
    first: f64,
    cap: f64,
    total: f64,
    contention: f64,
}

impl Tune {
    pub(crate) fn run(&self) -> ExitCode {
        exit(self.answer())
    }

    fn answer(&self) -> anyhow::Result<()> {
        let mut world = self.world.clone();
        if world.pattern == Some(Pattern::Breaker) {
            return Err(Wrong(anyhow!(
                "tune searches the parameters of retries only: leave --pattern out, and compare breakers with check --pattern breaker"
            ))
            .into());
        }
        world.pattern = Some(Pattern::Retry);
        let lowered = world.lower().map_err(Wrong)?;
        let own = Candidate {
            retries: whole(&lowered, "MAX_RET")?,
            first: real(&lowered, "MIN_BO")?,
            cap: real(&lowered, "MAX_BO")?,
            total: 0.0,
            contention: 0.0,
        };
        let mut grid = vec![own.clone()];
        for retries in 0..=6 {
            for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
                for cap in [1.0, 2.0, 4.0, 8.0] {
                    let first = own.first * factor;
                    grid.push(Candidate {
                        retries,
                        first,
                        cap: first * cap,
                        ..own.clone()
                    });
                }
            }
        }
        let solved: Vec<Candidate> = grid
            .par_iter()
            .map(|candidate| candidate.solved(&lowered))
            .collect::<anyhow::Result<_>>()?;
        let own = solved
            .first()
            .context("the policy itself is a candidate")?
            .clone();
        let plain = solved
            .iter()
            .find(|c| c.retries == 0)
            .context("no retries is a candidate")?
            .clone();
        let limit = plain.total * (1.0 + self.more_time / 100.0);
        let best = solved
            .iter()
            .filter(|c| c.total <= limit)
            .min_by(|a, b| a.contention.total_cmp(&b.contention))
            .context("not even a client without retries stays within the time: give a larger --more-time")?;
        if let Some(path) = &self.svg {
            let text = picture(&solved, &plain);
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        crate::check::print(&if self.json {
            self.json(&lowered, &plain, &own, best)
        } else {
            self.text(&lowered, &plain, &own, best)
        })
    }

    fn text(&self, lowered: &Lowered, plain: &Candidate, own: &Candidate, best: &Candidate) -> String {
        let mut out = String::new();
        for loss in &lowered.losses {
            let _ = writeln!(out, "# {loss}");
        }
        for (name, candidate) in [("without retries", plain), ("as written", own), ("tuned", best)] {
            let _ = writeln!(
                out,
                "{name}: {} retries, mean waits {} to {}: total {:+.1} %, contention {:+.1} %",
                candidate.retries,
                time(candidate.first * lowered.unit),
                time(candidate.cap * lowered.unit),
                (candidate.total / plain.total - 1.0) * 100.0,
                (candidate.contention / plain.contention - 1.0) * 100.0,
            );
        }
        let _ = writeln!(
            out,
            "# with full jitter, a mean wait of {} is an initial delay of {}",
            time(best.first * lowered.unit),
            time(2.0 * best.first * lowered.unit)
        );
        out
    }

    fn json(&self, lowered: &Lowered, plain: &Candidate, own: &Candidate, best: &Candidate) -> String {
        let one = |candidate: &Candidate| {
            json!({
                "maxRetries": candidate.retries,
                "meanFirstWaitSeconds": candidate.first * lowered.unit,
                "meanLargestWaitSeconds": candidate.cap * lowered.unit,
                "totalTime": candidate.total,
                "contentionTime": candidate.contention,
            })
        };
        let out = json!({
            "losses": lowered.losses,
            "moreTimePercent": self.more_time,
            "withoutRetries": one(plain),
            "asWritten": one(own),
            "tuned": one(best),
        });
        format!("{out:#}\n")
    }
}

impl Candidate {
    fn solved(&self, world: &Lowered) -> anyhow::Result<Candidate> {
        let mut constants = world.constants.clone();
        constants.insert("MAX_RET".to_owned(), Value::Int(self.retries));
        constants.insert("MIN_BO".to_owned(), Value::Real(self.first));
        constants.insert("MAX_BO".to_owned(), Value::Real(self.cap));
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
                .context("the model of this policy is too large to solve: allow fewer retries")?;
            Ok(values.iter().sum::<f64>() / values.len().max(1) as f64)
        };
        Ok(Candidate {
            total: mean("total")?,
            contention: mean("contention")?,
            ..self.clone()
        })
    }
}

/// The front: for each amount of extra time the least contention.
fn picture(solved: &[Candidate], plain: &Candidate) -> String {
    let mut sorted: Vec<&Candidate> = solved.iter().collect();
    sorted.sort_by(|a, b| a.total.total_cmp(&b.total));
    let mut least = f64::INFINITY;
    let mut front = Vec::new();
    for candidate in sorted {
        if candidate.contention < least {
            least = candidate.contention;
            front.push((
                (candidate.total / plain.total - 1.0) * 100.0,
                candidate.contention / plain.contention * 100.0,
            ));
        }
    }
    let low = front.first().map_or(0.0, |p| p.0.floor());
    let high = front.last().map_or(1.0, |p| p.0.ceil()).max(low + 1.0);
    let ticks = (0..=5)
        .map(|i| {
            let x = low + (high - low) * f64::from(i) / 5.0;
            (x, format!("{x:.0}"))
        })
        .collect();
    Figure {
        title: "Contention against total time",
        panels: vec![Panel {
            label: "contention, % of that without retries",
            x_label: "extra total time, %",
            x_range: (low, high),
            x_ticks: ticks,
            lines: vec![vec![front]],
        }],
        names: vec!["least contention for the time".to_owned()],
    }
    .svg()
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

fn whole(lowered: &Lowered, name: &str) -> anyhow::Result<i64> {
    match lowered.constants.get(name) {
        Some(Value::Int(value)) => Ok(*value),
        _ => anyhow::bail!("the model has no whole number {name}"),
    }
}

fn real(lowered: &Lowered, name: &str) -> anyhow::Result<f64> {
    match lowered.constants.get(name) {
        Some(Value::Real(value)) => Ok(*value),
        _ => anyhow::bail!("the model has no number {name}"),
    }
}
