//! A file of fleets: periodic clients, each fleet with what its source claims of it.

use std::time::Duration;

use retryguard_core::{
    Backoff, Instant, Ratio,
    backoff::{Growth, Jitter},
    time::nanos,
};
use retryguard_policy::{
    Diagnostics,
    reading::{Body, Mistakes, Node, entries, read, wrong},
};

use super::block::{Block, number};
use crate::{
    fleet::{Behaviour, Claim, Failures, Fleet, Pace, Series, Start, cohorts, individuals},
    streams::Seed,
};

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

    /// Reads a file of fleets, or tells every mistake in it at once. `name` is used where the file gives none.
    ///
    /// # Errors
    /// Every mistake, with its line and its cure.
    pub fn parse(text: &str, name: &str) -> Result<Self, Diagnostics> {
        let mut mistakes = Mistakes::default();
        let found = read(text, &mut mistakes).and_then(|root| file(&root, name, &mut mistakes));
        match mistakes.or(found)? {
            Some(fleets) => Ok(fleets),
            None => unreachable!("what could not be read was told"),
        }
    }
}

/// What a fleet has unless it says otherwise.
#[derive(Clone, Copy)]
struct Usual {
    clients: u32,
    period: Duration,
    duration: Duration,
    step: Duration,
    carried: Carried,
}

/// The machines keep no shorter period either.
const SHORTEST: Duration = Duration::from_millis(1);

/// The most steps of a run: a month of seconds. Each costs a few bytes for every retry that is told apart.
const MOST_STEPS: u64 = 31 * 86_400;

const CARRIED: [(&str, Carried); 2] = [
    ("individuals", Carried::Individuals),
    ("cohorts", Carried::Cohorts),
];

impl Usual {
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
    let usual = Usual::read(
        &mut block,
        Usual {
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

fn plan(node: &Node, usual: Usual, mistakes: &mut Mistakes) -> Option<Plan> {
    let mut block = Block::open(node, "a fleet", mistakes)?;
    let at = block.at();
    let named = block.need("name", "a short name", mistakes).is_some();
    let name = block.text("name", mistakes).unwrap_or_default();
    let title = block.text("title", mistakes).unwrap_or_else(|| name.clone());
    let claim = block.text("claim", mistakes).unwrap_or_default();
    let usual = Usual::read(&mut block, usual, mistakes);
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

/// The bounds of a factor that jitters; those of the slides unless others are given.
fn factor(block: &mut Block<'_>, mistakes: &mut Mistakes) -> (Ratio, Ratio) {
    let usual = (Ratio::percent(50), Ratio::percent(150));
    let Some(node) = block.take("factor") else {
        return usual;
    };
    if let Body::List(items) = &node.body
        && let [low, high] = items.as_slice()
    {
        let mut ratio = |node| number(node, "factor", 0.0..=1000.0, mistakes).and_then(Ratio::from_f64);
        if let (Some(low), Some(high)) = (ratio(low), ratio(high)) {
            if low > Ratio::ZERO && low < high {
                return (low, high);
            }
            mistakes.add(
                node.at,
                "a factor that runs backwards or reaches zero",
                "write the smaller one first, above 0",
            );
        }
    } else {
        wrong(node, "factor", "two numbers, such as [0.5, 1.5]", mistakes);
    }
    usual
}

fn retry(node: &Node, mistakes: &mut Mistakes) -> Option<Backoff> {
    let mut block = Block::open(node, "retry", mistakes)?;
    let delay = block
        .need("delay", "the first wait, such as 10s", mistakes)
        .is_some();
    let initial = block.duration("delay", mistakes);
    let multiplier = block.number("multiplier", 1.0..=100.0, mistakes).unwrap_or(1.0);
    let cap = block.duration("cap", mistakes);
    let stop_beyond = block.duration("stopBeyond", mistakes);
    let (low, high) = factor(&mut block, mistakes);
    let jitters = [
        ("none", Jitter::None),
        ("factor", Jitter::Factor { low, high }),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("decorrelated", Jitter::Decorrelated),
    ];
    let jitter = block.word("jitter", &jitters, mistakes).unwrap_or(Jitter::None);
    let at = block.at();
    block.close(mistakes);
    let initial = initial.filter(|_| delay)?;
    if initial < Duration::from_millis(1) {
        mistakes.add(at, "retries without a wait", "write a `delay` of at least 1ms");
        return None;
    }
    let growth = if multiplier > 1.0 {
        Growth::Exponential(Ratio::from_f64(multiplier)?)
    } else {
        Growth::Constant
    };
    Some(Backoff {
        growth,
        initial,
        cap: cap.unwrap_or(FOR_EVER),
        jitter,
        stop_beyond,
    })
}

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

fn failures(node: &Node, mistakes: &mut Mistakes) -> Vec<Failures> {
    items(
        node,
        "failures",
        "a list, each entry with `share`, `from` and `until`",
        mistakes,
    )
    .iter()
    .filter_map(|item| {
        let mut block = Block::open(item, "failures", mistakes)?;
        let share = block.need("share", "the share of requests that fail, such as 25%", mistakes);
        let share = share.and_then(|_| block.share("share", mistakes));
        let from = block.duration("from", mistakes).unwrap_or_default();
        let until = block.duration("until", mistakes);
        block.close(mistakes);
        Some(Failures {
            from: Instant::ZERO.after(from),
            until: until.map_or(Instant::NEVER, |until| Instant::ZERO.after(until)),
            share: share?,
        })
    })
    .collect()
}

fn expectations(node: &Node, mistakes: &mut Mistakes) -> Vec<Claim> {
    items(
        node,
        "expect",
        "a list, each entry with `from`, `until`, `rate` and `within`",
        mistakes,
    )
    .iter()
    .filter_map(|item| {
        let mut block = Block::open(item, "expect", mistakes)?;
        let from = block.duration("from", mistakes).unwrap_or_default();
        let until = block.duration("until", mistakes);
        let rate = block.number("rate", 0.0..=1e9, mistakes);
        let within = block.number("within", 0.0..=1e9, mistakes);
        let at = block.at();
        block.close(mistakes);
        let (Some(until), Some(rate), Some(within)) = (until, rate, within) else {
            mistakes.add(at, "half an expectation", "write `until`, `rate` and `within`");
            return None;
        };
        if until <= from {
            mistakes.add(at, "an expectation of no time", "let `from` come before `until`");
        }
        Some(Claim {
            from: Instant::ZERO.after(from),
            until: Instant::ZERO.after(until),
            rate,
            within,
        })
    })
    .collect()
}

fn shown(block: &mut Block<'_>, usual: Usual, mistakes: &mut Mistakes) -> ((Instant, Instant), Duration) {
    let whole = (Instant::ZERO, Instant::ZERO.after(usual.duration));
    let Some(mut inner) = block
        .take("plot")
        .and_then(|node| Block::open(node, "plot", mistakes))
    else {
        return (whole, usual.step);
    };
    let from = inner.duration("from", mistakes).unwrap_or_default();
    let until = inner.duration("until", mistakes).unwrap_or(usual.duration);
    let step = inner.duration("step", mistakes).unwrap_or(usual.step);
    let at = inner.at();
    inner.close(mistakes);
    if step < usual.step || !nanos(step).is_multiple_of(nanos(usual.step)) {
        mistakes.add(
            at,
            "a plot finer than the steps of the fleet",
            "write a multiple of `step`",
        );
    }
    if until <= from {
        mistakes.add(at, "a plot of no time", "let `from` come before `until`");
    }
    let shown = (
        Instant::ZERO.after(from),
        Instant::ZERO.after(until.min(usual.duration)),
    );
    (shown, step)
}

fn items<'n>(node: &'n Node, key: &str, wanted: &str, mistakes: &mut Mistakes) -> &'n [Node] {
    match &node.body {
        Body::List(items) => items,
        _ => {
            wrong(node, key, wanted, mistakes);
            &[]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_read_with_what_the_file_has_for_all() {
        let fleets = Fleets::parse(
            "clients: 500
period: 5m
fleets:
  - name: one
    start: after-a-wait
    pace: jittered
    retry: {delay: 10s, multiplier: 2, jitter: factor, stopBeyond: 300s}
    failures: [{share: 25%, from: 10m}]
    expect: [{from: 0s, until: 150s, rate: 0, within: 0}]
  - {name: two, clients: 7, carried: cohorts}
",
            "test",
        )
        .unwrap();
        let [one, two] = fleets.fleets.as_slice() else {
            unreachable!("two fleets")
        };
        assert_eq!((one.fleet.clients, two.fleet.clients), (500, 7));
        let retry = one.fleet.behaviour.retry.unwrap();
        assert_eq!(retry.growth, Growth::Exponential(Ratio::percent(200)));
        assert_eq!(retry.stop_beyond, Some(Duration::from_secs(300)));
        assert_eq!(one.fleet.failure_at(Instant::from_secs(3000)), 0.25);
        assert_eq!(
            (two.carried, two.fleet.behaviour.pace),
            (Carried::Cohorts, Pace::Slots)
        );
        let verdict = one.expect[0].check(&one.run(Seed(1)));
        assert!(verdict.holds(), "{verdict:?}");
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_line_and_its_cure() {
        let told = Fleets::parse(
            "clients: 0
fleets:
  - name: one
    pace: jitered
    factor: [1.5, 0.5]
    retry: {multiplier: 2}
  - pace: fixed
    step: 7s
    carried: cohorts
    failures: [{from: 1s}]
    expect: [{from: 5s, until: 2s, rate: 1, within: 0.1}, {rate: 1}]
    plot: {step: 2s}
    sped: 1
",
            "test",
        )
        .unwrap_err()
        .to_string();
        for expected in [
            "line 1, column 10: `clients` is `0`; write a whole number from 1 to 4294967295",
            "line 4, column 11: `pace` is `jitered`; did you mean `jittered`?",
            "write the smaller one first",
            "`retry` has no `delay`",
            "`a fleet` has no `name`",
            "cannot be carried as cohorts; the step must divide the period",
            "`failures` has no `share`",
            "an expectation of no time",
            "half an expectation",
            "a plot finer than the steps of the fleet",
            "line 13, column 5: unknown key `sped`",
        ] {
            assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
        }
    }

    #[test]
    fn times_that_no_run_can_hold_are_refused() {
        let told = Fleets::parse(
            "period: 0s\nfleets: [{name: one, duration: 30d, step: 1ms}]",
            "test",
        );
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains("`period` is too short; write a duration of at least 1ms"),
            "{told}"
        );
        assert!(
            told.contains("more steps than can be kept; choose a longer `step`"),
            "{told}"
        );
    }

    /// The example of the reference runs, and keeps its promise.
    #[test]
    fn the_example_of_the_reference_is_a_file_of_fleets() {
        let page = include_str!("../../../../docs/fleets.md");
        let example = page
            .split("```yaml")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let fleets = Fleets::parse(example.unwrap(), "example").unwrap();
        let proposed = &fleets.fleets[1];
        assert!(proposed.expect[0].check(&proposed.run(Seed(1))).holds());
        // Every key that is read is explained.
        for key in [
            "start",
            "pace",
            "factor",
            "retry",
            "failures",
            "expect",
            "plot",
            "stopBeyond",
            "multiplier",
            "cap",
        ] {
            assert!(page.contains(&format!("| `{key}`")), "{key}");
        }
    }

    #[test]
    fn a_file_of_fleets_is_known_by_its_key() {
        assert!(Fleets::stand_in("fleets: []"));
        assert!(!Fleets::stand_in("services: {}"));
        assert!(!Fleets::stand_in("- fleets"));
        assert!(!Fleets::stand_in("fleets: ["));
    }
}
