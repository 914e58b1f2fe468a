//! A file of fleets: periodic clients, each fleet with what its source claims of it.

mod parts;

use std::{fs, path::Path, time::Duration};

use retryguard_core::{Instant, time::nanos};
use retryguard_policy::{
    Diagnostics,
    reading::{Mistakes, Node, entries, read},
};

use super::{
    ScenarioError,
    block::{Block, number},
    stem,
};
use crate::{
    fleet::{Behaviour, Claim, Failures, Fleet, Pace, Series, Start, cohorts, individuals},
    streams::Seed,
};

use parts::{expectations, factor, failures, items, retry, shown};

/// Fleets that are run one beside the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleets {
    /// The name of the file.
    pub name: String,
    /// What it claims as a whole.
    pub claim: String,
    /// Where the claims stand.
    pub source: String,
    /// Replications, unless the caller wants another number.
    pub replications: u32,
    /// The fleets in their order.
    pub fleets: Vec<Plan>,
}

/// One fleet, how it is run and what is expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What the source calls it.
    pub title: String,
    /// What the source says of it.
    pub claim: String,
    /// The fleet itself.
    pub fleet: Fleet,
    /// How its clients are carried.
    pub carried: Carried,
    /// The claim in numbers.
    pub expect: Vec<Claim>,
    /// The time that a picture shows.
    pub shown: (Instant, Instant),
    /// The width of a bin of the picture.
    pub shown_step: Duration,
}

/// How clients are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// One after the other.
    Individuals,
    /// As counts.
    Cohorts,
}

impl Plan {
    /// Runs the fleet once.
    #[must_use]
    pub fn run(&self, seed: Seed) -> Series {
        match self.carried {
            Carried::Individuals => individuals::run(&self.fleet, seed),
            Carried::Cohorts => match cohorts::run(&self.fleet, seed) {
                Ok(series) => series,
                Err(_) => {
                    unreachable!("a fleet that cannot be carried as counts was refused when it was read")
                }
            },
        }
    }
}

impl Fleets {
    /// Whether a text is a file of fleets rather than a world of services.
    #[must_use]
    pub fn stand_in(text: &str) -> bool {
        let mut ignored = Mistakes::default();
        read(text, &mut ignored)
            .as_ref()
            .and_then(|root| entries(root, "the scenario", &mut ignored))
            .is_some_and(|entries| entries.iter().any(|entry| entry.key == "fleets"))
    }

    /// Reads a file of fleets; `None` where the file is something else or cannot be read.
    ///
    /// # Errors
    /// Where it has mistakes.
    pub fn load(path: &Path) -> Result<Option<Self>, ScenarioError> {
        let Some(text) = fs::read_to_string(path).ok().filter(|text| Self::stand_in(text)) else {
            return Ok(None);
        };
        let file = Self::parse(&text, &stem(path));
        file.map(Some)
            .map_err(|mistakes| ScenarioError::Mistakes(path.to_owned(), mistakes))
    }

    /// Keeps the fleets of these names.
    ///
    /// # Errors
    /// With the first name that is unknown.
    pub fn choose<'a>(&mut self, wanted: &'a [String]) -> Result<(), &'a str> {
        if let Some(unknown) = wanted
            .iter()
            .find(|name| self.fleets.iter().all(|it| it.name != **name))
        {
            return Err(unknown);
        }
        self.fleets.retain(|it| wanted.contains(&it.name));
        Ok(())
    }

    /// Reads a file of fleets, or reports every mistake in it at once. `name` is used where the file gives none.
    ///
    /// # Errors
    /// Every mistake, with its line and its cure.
    pub fn parse(text: &str, name: &str) -> Result<Self, Diagnostics> {
        let mut mistakes = Mistakes::default();
        let found = read(text, &mut mistakes).and_then(|root| file(&root, name, &mut mistakes));
        match mistakes.or(found)? {
            Some(fleets) => Ok(fleets),
            None => unreachable!("what could not be read was reported"),
        }
    }
}

/// What a fleet has unless it says otherwise.
#[derive(Clone, Copy)]
struct FleetDefaults {
    clients: u32,
    period: Duration,
    duration: Duration,
    step: Duration,
    carried: Carried,
}

/// The machines keep no shorter period either.
const SHORTEST: Duration = Duration::from_millis(1);

/// The most steps of a run: a month of seconds. Each costs a few bytes for every retry that is distinguished.
const MOST_STEPS: u64 = 31 * 86_400;

const CARRIED: [(&str, Carried); 2] = [
    ("individuals", Carried::Individuals),
    ("cohorts", Carried::Cohorts),
];

impl FleetDefaults {
    fn read(block: &mut Block<'_>, before: Self, mistakes: &mut Mistakes) -> Self {
        let mut span = |key, before: Duration, mistakes: &mut Mistakes| {
            let found = block.duration(key, mistakes).unwrap_or(before);
            if found < SHORTEST {
                let at = block.at();
                mistakes.add(
                    at,
                    format!("`{key}` is too short"),
                    "write a duration of at least 1ms",
                );
            }
            found.max(SHORTEST)
        };
        Self {
            period: span("period", before.period, mistakes),
            duration: span("duration", before.duration, mistakes),
            step: span("step", before.step, mistakes),
            clients: block
                .count("clients", 1..=u32::MAX, mistakes)
                .unwrap_or(before.clients),
            carried: block
                .word("carried", &CARRIED, mistakes)
                .unwrap_or(before.carried),
        }
    }
}

fn file(root: &Node, name: &str, mistakes: &mut Mistakes) -> Option<Fleets> {
    let mut block = Block::open(root, "the file of fleets", mistakes)?;
    let written_name = block.text("name", mistakes);
    let claim = block.text("claim", mistakes).unwrap_or_default();
    let source = block.text("source", mistakes).unwrap_or_default();
    let replications = block.count("replications", 1..=10_000, mistakes).unwrap_or(1);
    let usual = FleetDefaults::read(
        &mut block,
        FleetDefaults {
            clients: 10_000,
            period: Duration::from_secs(300),
            duration: Duration::from_secs(3600),
            step: Duration::from_secs(1),
            carried: Carried::Individuals,
        },
        mistakes,
    );
    let listed = block.need("fleets", "a list of fleets", mistakes);
    block.close(mistakes);
    let fleets = items(listed?, "fleets", "a list of fleets", mistakes)
        .iter()
        .filter_map(|item| plan(item, usual, mistakes))
        .collect();
    Some(Fleets {
        name: written_name.unwrap_or_else(|| name.to_owned()),
        claim,
        source,
        replications,
        fleets,
    })
}

fn plan(node: &Node, usual: FleetDefaults, mistakes: &mut Mistakes) -> Option<Plan> {
    let mut block = Block::open(node, "a fleet", mistakes)?;
    let at = block.at();
    let named = block.need("name", "a short name", mistakes).is_some();
    let name = block.text("name", mistakes).unwrap_or_default();
    let title = block.text("title", mistakes).unwrap_or_else(|| name.clone());
    let claim = block.text("claim", mistakes).unwrap_or_default();
    let usual = FleetDefaults::read(&mut block, usual, mistakes);
    let starts = [
        ("at-once", Start::AtOnce),
        ("after-a-wait", Start::AfterAWait),
        ("settled", Start::Settled),
    ];
    let start = block.word("start", &starts, mistakes).unwrap_or(Start::Settled);
    let (low, high) = factor(&mut block, mistakes);
    let paces = [
        ("fixed", Pace::Fixed),
        ("jittered", Pace::Jittered { low, high }),
        ("slots", Pace::Slots),
        ("slots-truncated-late", Pace::SlotsTruncatedLate),
    ];
    let pace = block.word("pace", &paces, mistakes).unwrap_or(Pace::Slots);
    let retry = block.take("retry").and_then(|node| retry(node, mistakes));
    let failures = block
        .take("failures")
        .map_or_else(Vec::new, |node| failures(node, mistakes));
    let expect = block
        .take("expect")
        .map_or_else(Vec::new, |node| expectations(node, mistakes));
    let end = Instant::ZERO.after(usual.duration);
    let (shown, shown_step) = shown(&mut block, usual, mistakes);
    block.close(mistakes);
    let fleet = Fleet {
        clients: u64::from(usual.clients),
        behaviour: Behaviour {
            period: usual.period,
            start,
            pace,
            retry,
        },
        failures,
        duration: usual.duration,
        step: usual.step,
    };
    if nanos(usual.duration) / nanos(usual.step) > MOST_STEPS {
        let cure = format!("choose a longer `step` or a shorter `duration`, at most {MOST_STEPS} steps");
        mistakes.add(at, "more steps than can be kept", cure);
    } else if usual.carried == Carried::Cohorts
        && let Err(why) = cohorts::check(&fleet)
    {
        mistakes.add(at, "this fleet cannot be carried as cohorts", why.to_string());
    }
    if expect.iter().any(|claim: &Claim| claim.until > end) {
        mistakes.add(
            at,
            "something is expected after the end",
            "let `duration` cover every `until`",
        );
    }
    named.then_some(Plan {
        name,
        title,
        claim,
        fleet,
        carried: usual.carried,
        expect,
        shown,
        shown_step,
    })
}

#[cfg(test)]
mod tests;
