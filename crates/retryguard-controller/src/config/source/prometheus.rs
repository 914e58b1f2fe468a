//! The keys of the source `prometheus`.

use std::{path::PathBuf, time::Duration};

use retryguard_core::Ratio;
use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::address;
use crate::config::source::preset::{PRESETS, Preset};

/// How the server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusSettings {
    /// Where it is.
    pub url: String,
    /// The file with the bearer token that its port requires.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates that it is trusted by; the machine's where none is written.
    pub ca_file: Option<PathBuf>,
    /// How often it is asked.
    pub every: Duration,
    /// The time that one question looks back: at least two of the server's own scrapes.
    pub window: Duration,
    /// Which quantile of the delay is read.
    pub quantile: Ratio,
}

/// How a target is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusTarget {
    /// Where its numbers stand.
    pub find: Find,
    /// Whether its delay is asked for: only where a guard reads it, for histograms are many series.
    pub delay: bool,
}

/// Ready questions, or the operator's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Find {
    /// Ready questions.
    Preset(Preset),
    /// PromQL of the operator's own; `$window` stands for the window.
    Queries(Queries),
}

/// Each gives one number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queries {
    /// Calls in the window.
    pub calls: String,
    /// How many of them were rejected for load.
    pub rejected: Option<String>,
    /// Retries in the window.
    pub retries: Option<String>,
    /// A delay, in seconds.
    pub delay: Option<String>,
}

impl PrometheusSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let wanted = "the address of a Prometheus server";
        let url = block.need_text("url", wanted, mistakes);
        let url = url.and_then(|(text, at)| address::checked(text, at, mistakes));
        let token_file = place.token_file(&mut block, mistakes);
        let ca_file = place.pem_file("caFile", &mut block, mistakes);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let every = block.duration("every", second..=hour, mistakes);
        let every = every.unwrap_or(Duration::from_secs(5));
        let window = block.duration("window", second..=hour, mistakes);
        let window = window.unwrap_or(Duration::from_secs(30).max(every));
        if window < every {
            mistakes.add(
                at,
                "`window` is shorter than `every`: what happens between two questions would be missed",
                "write a `window` of at least `every`",
            );
        }
        let quantile = block.share("quantile", Ratio::percent(1)..=Ratio::percent(99), mistakes);
        block.close(mistakes);
        Some(Self {
            url: url?,
            token_file,
            ca_file,
            every,
            window,
            quantile: quantile.unwrap_or(Ratio::percent(95)),
        })
    }
}

impl PrometheusTarget {
    pub(in crate::config) fn read(
        name: &str,
        delay: bool,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let at = block.at();
        let preset = Preset::read(name, block, mistakes);
        let queries = block.block("queries", mistakes);
        let find = match (preset, queries) {
            (Some(preset), None) => Find::Preset(preset),
            (None, Some(block)) => Find::Queries(free(block, mistakes)?),
            _ => {
                mistakes.add(
                    at,
                    format!("`{name}` does not say which metrics are its"),
                    format!("give its prometheus block one of {PRESETS}, queries"),
                );
                return None;
            }
        };
        Some(Self { find, delay })
    }
}

fn free(mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<Queries> {
    let at = block.at();
    let mut query = |key| block.text(key, "a PromQL expression that gives one number", mistakes);
    let (calls, rejected) = (query("calls"), query("rejected").map(str::to_owned));
    let (retries, delay) = (
        query("retries").map(str::to_owned),
        query("delay").map(str::to_owned),
    );
    block.close(mistakes);
    if calls.is_none() || (rejected.is_none() && retries.is_none() && delay.is_none()) {
        mistakes.add(
            at,
            "`queries` has no signal",
            "write `calls` and at least one of `rejected`, `retries`, `delay`",
        );
    }
    Some(Queries {
        calls: calls?.to_owned(),
        rejected,
        retries,
        delay,
    })
}
