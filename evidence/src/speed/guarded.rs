//! Clients that protect themselves, in our simulator and in others: speed, and whether all come to the same result.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::programs::{Speeds, run};

/// The programs that are compared.
pub(super) struct Programs<'a> {
    pub(super) python: &'a Path,
    pub(super) nexosim: PathBuf,
    pub(super) nexosim_lto: PathBuf,
    pub(super) ours: &'a Path,
}

/// One number of clients.
struct World {
    clients: &'static str,
    /// How often each program runs; and in every which of these rounds SimPy does, if at all.
    rounds: u32,
    simpy_every: Option<u32>,
    /// How often faster than each the default policy is to be.
    wanted: &'static [(&'static str, f64)],
}

const WORLDS: [World; 2] = [
    World {
        clients: "1000",
        rounds: 24,
        simpy_every: Some(6),
        wanted: &[
            ("simpy-guarded", 15.0),
            ("nexosim-guarded", 3.0),
            ("nexosim-guarded-lto", 0.0),
            ("ours-same-rules", 0.0),
            ("ours-no-state", 1.0 / 1.5),
        ],
    },
    World {
        clients: "1000000",
        rounds: 6,
        simpy_every: None,
        wanted: &[
            ("nexosim-guarded", 3.0),
            ("nexosim-guarded-lto", 0.0),
            ("ours-same-rules", 0.0),
            ("ours-no-state", 1.0 / 2.5),
        ],
    },
];

/// The one that the wanted ratios are about; and the one that decides by the rules of the others.
const DEFAULT: &str = "ours-default";
const SAME_RULES: &str = "ours-same-rules";

const EVENTS: &str = "3000000";

/// How far the results of two programs with the same rules may be apart, each by its own chance: the attempts of a call, and the share
/// of calls that failed. Without a budget, a hundredth as many fail.
const ATTEMPTS_APART: f64 = 0.01;
const FAILED_APART: f64 = 0.1;

/// Runs all, adds to the page, and to the list of what is slower than wanted. Fails where the results do not agree.
pub(super) fn race(
    programs: &Programs<'_>,
    page: &mut String,
    short: &mut Vec<String>,
) -> anyhow::Result<()> {
    *page += HEAD;
    for world in &WORLDS {
        let mut speeds = Speeds::default();
        let mut results = Vec::new();
        for round in 1..=world.rounds {
            eprintln!(
                "{} clients that protect themselves, round {round} of {}",
                world.clients, world.rounds
            );
            let arguments = [EVENTS, world.clients];
            let mut texts = vec![
                (run(&programs.nexosim, &arguments)?, ""),
                (run(&programs.nexosim_lto, &arguments)?, "-lto"),
                (run(programs.ours, &["guarded", EVENTS, world.clients])?, ""),
            ];
            if world.simpy_every.is_some_and(|every| round % every == 0) {
                let script = "evidence/simulators/guarded_simpy.py";
                texts.push((run(programs.python, &[script, "300000", world.clients])?, ""));
            }
            // Each round has the same results. All programs run in the last one.
            results.clear();
            for (text, suffix) in texts {
                speeds.note(&text, suffix);
                for line in text.lines() {
                    results.push(Outcome::read(line, suffix)?);
                }
            }
        }
        agree(&results).with_context(|| format!("{} clients", world.clients))?;
        let (best, middle) = speeds.of(DEFAULT)?;
        row(page, world, &results, DEFAULT, (best, middle), (1.0, 1.0), 0.0)?;
        for &(name, wanted) in world.wanted {
            let theirs = speeds.of(name)?;
            let ratios = (best / theirs.0, middle / theirs.1);
            row(page, world, &results, name, theirs, ratios, wanted)?;
            if ratios.0 < wanted {
                short.push(format!(
                    "{:.2} of {wanted:.2} times {name} with {} clients",
                    ratios.0, world.clients
                ));
            }
        }
    }
    Ok(())
}

fn row(
    page: &mut String,
    world: &World,
    results: &[Outcome],
    name: &str,
    (best, middle): (f64, f64),
    (ratio, of_middle): (f64, f64),
    wanted: f64,
) -> anyhow::Result<()> {
    let result = find(results, name)?;
    let wish = if wanted > 0.0 {
        format!("{wanted:.2}")
    } else {
        String::new()
    };
    writeln!(
        page,
        "| {} | {name} | {best:.0} | {middle:.0} | {ratio:.2} | {of_middle:.2} | {wish} | {:.3} | {:.2} % |",
        world.clients,
        result.attempts,
        100.0 * result.failed
    )?;
    Ok(())
}

/// What came of a run.
#[derive(Debug)]
struct Outcome {
    name: String,
    /// Attempts of a call.
    attempts: f64,
    /// The share of calls that failed.
    failed: f64,
}

impl Outcome {
    /// From a line such as `simpy-guarded 185207 1.09842 0.01132`.
    fn read(line: &str, suffix: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, _, attempts, failed] = words[..] else {
            bail!("the benchmark printed `{line}`");
        };
        Ok(Self {
            name: format!("{name}{suffix}"),
            attempts: attempts.parse().with_context(|| format!("in `{line}`"))?,
            failed: failed.parse().with_context(|| format!("in `{line}`"))?,
        })
    }
}

fn find<'a>(results: &'a [Outcome], name: &str) -> anyhow::Result<&'a Outcome> {
    results
        .iter()
        .find(|it| it.name == name)
        .with_context(|| format!("{name} printed no result"))
}

/// Fails unless each of the others has the result that we have under the same rules.
fn agree(results: &[Outcome]) -> anyhow::Result<()> {
    let ours = find(results, SAME_RULES)?;
    for theirs in results.iter().filter(|it| !it.name.starts_with("ours")) {
        let attempts = (theirs.attempts / ours.attempts - 1.0).abs();
        let failed = (theirs.failed / ours.failed - 1.0).abs();
        // Not a number is no agreement either.
        if !(attempts <= ATTEMPTS_APART && failed <= FAILED_APART) {
            bail!("{theirs:?} does not agree with {ours:?}");
        }
    }
    Ok(())
}

const HEAD: &str = "
Clients that protect themselves, each with a state of its own: 15 calls a second in all, of up to four attempts, to a service with 10
workers, 49 places in its queue and a mean service time of 100 ms, which fails at one request in ten. SimPy (a process for each client)
and nexosim (one model) have a guard (Algorithm 1), a budget (a fifth of the calls of ten seconds, and one retry more in ten seconds) and
a breaker (four fifths of at least 20 attempts), as their users would write them. `ours-same-rules` is our simulator with a policy of
these rules: the run fails unless the attempts of a call agree within 1 % and the failed calls within 10 %. `ours-default` is the default
policy, which does more: its guard measures what retries add, and an adaptive limit bounds the attempts in flight. `ours-no-state` is the
policy of the first table. The ratio is the speed of the default policy over that of the row. Three million events (SimPy 300,000), in
turn: 24 runs with a thousand clients (SimPy 4), 6 with a million, where SimPy would need about 4 GB and did not run. One difference
is left: our Algorithm 1 takes each second without calls for a sample without rejections, as published; the others skip such seconds,
which is less work.

| clients | simulator | events a second, best | middle | ratio | of the middle | wanted | attempts a call | calls failed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;

    fn results(theirs: &str) -> Vec<Outcome> {
        ["ours-same-rules 3 1.099 0.0112", theirs]
            .iter()
            .map(|line| Outcome::read(line, "").unwrap())
            .collect()
    }

    #[test]
    fn results_under_the_same_rules_agree() {
        agree(&results("simpy-guarded 1 1.097 0.0110")).unwrap();
    }

    #[test]
    fn a_simulation_without_a_budget_does_not_agree() {
        let error = agree(&results("simpy-guarded 1 1.111 0.0001")).unwrap_err();
        assert!(error.to_string().contains("does not agree"), "{error}");
    }

    #[test]
    fn no_calls_are_no_agreement() {
        agree(&results("simpy-guarded 1 NaN NaN")).unwrap_err();
    }

    #[test]
    fn a_line_without_a_result_is_refused() {
        Outcome::read("simpy-guarded 185207", "").unwrap_err();
    }
}
