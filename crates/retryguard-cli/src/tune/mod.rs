//! `retryguard tune`: the retries, or the breaker, that hold the least of the network for at most so much more time.

mod clean;
mod picture;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;
use retryguard_tune::{Candidate, Found, Lowered, Search, more};
use serde_json::json;

use crate::modelled::{Pattern, World, Wrong, exit};

/// The extra time that is allowed unless another is given, in percent.
pub(crate) const MORE_TIME: f64 = 10.0;

/// Find the parameters of retries or of a breaker that minimise contention for at most x % more total time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  retryguard tune --policy policy.yaml --service payments
  retryguard tune --policy policy.yaml --service payments --pattern breaker --svg trade-off.svg")]
pub(crate) struct Tune {
    #[command(flatten)]
    world: World,
    /// How much more total time than without the pattern may be spent, in percent, averaged over the availabilities.
    #[arg(long, value_name = "PERCENT", default_value_t = MORE_TIME)]
    more_time: f64,
    /// Write the trade-off as a picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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
        let (search, found) = tuned(&world, &lowered, self.more_time, self.svg.as_deref())?;
        crate::output::print(&if self.json {
            self.json(&lowered, &search, &found)
        } else {
            text(&lowered, &search, &found)
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

/// Searches for better settings, and draws the trade-off where a file is given.
pub(crate) fn tuned(
    world: &World,
    lowered: &Lowered,
    more_time: f64,
    picture: Option<&Path>,
) -> anyhow::Result<(Search, Found)> {
    let search = match world.pattern {
        Some(Pattern::Breaker) => Search::breaker(lowered, &world.as_retries()?)?,
        _ => Search::retries(lowered)?,
    };
    let service = clean::Service::of(world)?;
    let found = search.run(lowered, more_time, &|proposed| service.passes(proposed))?;
    if let Some(path) = picture {
        let text = picture::svg(&found, more_time, search.without.0);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok((search, found))
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
