//! `retryguard tune`: the retries, or the breaker, that hold the least of the network for at most so much more time; or the
//! policy that serves most calls in a simulated world.

mod scenario;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use retryguard_tune::{Found, Lowered, ModelledService, Search};

use crate::{
    modelled::{Pattern, World},
    output::{Unanswered, save},
};

/// The extra time that is allowed unless another is given, in percent.
pub(crate) const MORE_TIME: f64 = 10.0;

/// Find better parameters of a policy: by its Markov model, or in the world of a scenario.
///
/// With --scenario, settings of the whole policy are simulated. The one with the most goodput wins, among equals the one with
/// the least cost, then the one with the least latency. Its figures come from replications that the search has not seen. Without --scenario, the retries or the breaker of one
/// service are solved as a Markov model, and the setting with the least contention for at most x % more total time wins.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  retryguard tune --policy policy.yaml --service payments
  retryguard tune --policy policy.yaml --service payments --pattern breaker --svg trade-off.svg
  retryguard tune --scenario scenario.yaml --policy policy.yaml --out tuned.yaml --svg trade-off.svg
  retryguard tune --scenario scenario.yaml --judge-in other.yaml")]
pub(crate) struct Tune {
    #[command(flatten)]
    world: World,
    /// Search in the simulated world of this file, from --policy, or from the default policy where none is given. Searches
    /// the keys of `defaults`, or those of --service.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["availability", "response_time", "pattern", "more_time"])]
    scenario: Option<PathBuf>,
    /// With --scenario: show the result in these worlds too, which the search does not use.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "scenario")]
    judge_in: Vec<PathBuf>,
    /// With --scenario: how many settings are tried in the first round.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "scenario")]
    candidates: u32,
    /// With --scenario: how often a setting is run that is not dropped before.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "scenario")]
    replications: u32,
    /// With --scenario: how many other replications the reported figures come from.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "scenario")]
    held_out: u32,
    /// With --scenario: the largest difference of goodput, and of cost, at which two settings count as equal.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = crate::simulate::share, requires = "scenario")]
    within: f64,
    /// With --scenario: the seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "scenario")]
    seed: u64,
    /// With --scenario: how many threads run; all cores by default. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "scenario")]
    threads: Option<u16>,
    /// With --scenario: write the policy file here instead of printing it.
    #[arg(long, value_name = "FILE", requires = "scenario")]
    out: Option<PathBuf>,
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
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.scenario {
            return self.in_world(path);
        }
        if !(self.more_time >= 0.0 && self.more_time.is_finite()) {
            bail!("--more-time {}: give a percentage of at least 0", self.more_time);
        }
        let service = self.world.service(Some(Pattern::Retry))?;
        let lowered = service.lower()?;
        let (search, found) = tuned(&service, &lowered, self.more_time, self.svg.as_deref())?;
        crate::output::print(&if self.json {
            found.json(&lowered, &search, self.more_time)
        } else {
            found.text(&lowered, &search)
        })
    }
}

/// Searches for better settings, and draws the trade-off where a file is given.
pub(crate) fn tuned(
    service: &ModelledService,
    lowered: &Lowered,
    more_time: f64,
    picture: Option<&Path>,
) -> anyhow::Result<(Search, Found)> {
    let (search, found) = service
        .tuned(lowered, more_time)
        .map_err(|error| Unanswered(error.into()))?;
    if let Some(path) = picture {
        save(path, &found.svg(&search, more_time))?;
    }
    Ok((search, found))
}
