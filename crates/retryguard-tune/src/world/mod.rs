//! The search for better parameters of a policy in a simulated world.
//!
//! Settings are tried with the same random numbers and dropped by successive halving: all of them in few replications, the better
//! third in three times as many, and so on (Jamieson and Talwalkar, *Non-stochastic Best Arm Identification and
//! Hyperparameter Optimization*, 2016). Then every change of one key of the best setting is tried in the same way, until none
//! of them is better. The figures that are reported come from replications that the search has not seen: the best of many is
//! partly lucky in those that chose it.

mod file;
mod picture;
mod rank;
mod space;
mod words;

use std::path::{Path, PathBuf};

use retryguard_policy::{Finding, Severity, lint};
use retryguard_sim::{
    client_policy::ClientPolicy,
    comparison::{Plan, Summary, compare},
    scenario::{Fleets, Scenario, ScenarioError},
    streams::{Purpose, Seed},
};

use file::PolicyFile;
pub use rank::Figures;
pub use space::Change;
use space::{Setting, Space};

/// Why a policy cannot be tuned in a world.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The scenario cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Fleets of periodic clients have no policy.
    #[error("{}: a file of `fleets` has no policy to tune; give a scenario with `services` and `clients`", .0.display())]
    Fleets(PathBuf),
    /// The scenario has several worlds.
    #[error(
        "{}: the scenario has a `sweep`, and a policy is tuned in one world; remove the `sweep`, or write the world with the \
         value that matters into a file with `base`",
        .0.display()
    )]
    Sweep(PathBuf),
    /// The policy cannot be read.
    #[error("the policy has mistakes:\n{0}")]
    Policy(String),
    /// The policy does not list the service.
    #[error("the policy has no service `{name}`; {help}")]
    UnknownService {
        /// The name that was given.
        name: String,
        /// What may have been meant.
        help: String,
    },
    /// No call of the world goes to the service under the policy.
    #[error(
        "no call of the scenario goes to `{name}` under the compared policy, so its keys change nothing; the called services are {called}"
    )]
    NotCalled {
        /// The service.
        name: String,
        /// Those that are called.
        called: String,
    },
    /// Every edge has a fixed policy.
    #[error(
        "every call of the scenario has a fixed policy: remove `policy` from the `calls` that the search is about"
    )]
    NoComparedEdge,
    /// All keys are written for each service.
    #[error(
        "each called service of the policy writes every searched key itself: give --service with one of them"
    )]
    NothingToSearch,
    /// No setting passes the linter.
    #[error(
        "no setting passes `retryguard lint`: correct what it says of the keys that are not searched first"
    )]
    NothingPasses,
}

/// Reads a scenario with one world.
///
/// # Errors
/// Where the file cannot be read, has several worlds, or has no policy.
pub fn load(path: &Path) -> Result<Scenario, Problem> {
    if Fleets::load(path).is_ok_and(|fleets| fleets.is_some()) {
        return Err(Problem::Fleets(path.to_owned()));
    }
    let scenario = Scenario::load(path)?;
    match scenario.sweep {
        Some(_) => Err(Problem::Sweep(path.to_owned())),
        None => Ok(scenario),
    }
}

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// The seed of all random numbers.
    pub seed: Seed,
    /// Settings in the first round.
    pub candidates: u32,
    /// Replications of a setting that is not dropped.
    pub replications: u32,
    /// Replications for the figures that are reported.
    pub held_out: u32,
    /// Differences of goodput and of cost within this share count as none.
    pub within: f64,
    /// Threads that run; the result does not depend on their number.
    pub threads: usize,
}

/// A policy file, and whose keys of it are searched.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The policy file's text.
    pub text: &'a str,
    /// The service of the policy; `None` for its `defaults`.
    pub service: Option<&'a str>,
}

/// What was found.
#[derive(Debug)]
pub struct Improvement {
    /// The seed of the search.
    pub seed: Seed,
    /// The text of the policy file.
    pub policy: String,
    /// What differs from the policy as it was written.
    pub changes: Vec<Change>,
    /// Warnings and errors of the linter that the searched keys cannot remove.
    pub findings: Vec<Finding>,
    /// Searched keys that every called service writes itself, so that they were left out.
    pub left_out: Vec<&'static str>,
    /// Whether the cost is a bill; otherwise it is requests for each success.
    pub is_bill: bool,
    /// The settings that were tried.
    pub tried: Vec<Tried>,
    /// How many runs the search took.
    pub runs: usize,
    /// The policy as written and as tuned, in replications that the search has not seen: first in the scenario itself, then
    /// in the worlds that were given beside it.
    pub judged: Vec<Judged>,
}

/// A setting that was tried.
#[derive(Debug, Clone)]
pub struct Tried {
    /// What differs from the policy as it was written.
    pub changes: Vec<Change>,
    /// Its means over the replications that it got.
    pub figures: Figures,
    /// The means of the tuned policy over the same replications.
    pub tuned: Figures,
    /// How many replications.
    pub replications: usize,
    /// Whether it is the tuned one.
    pub is_tuned: bool,
}

/// A world in which the result was judged.
#[derive(Debug)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// The policy as written.
    pub written: Summary,
    /// The tuned policy.
    pub tuned: Summary,
}

/// Rounds of single changes after the first one; most searches end sooner because nothing is better any more.
const ROUNDS: u32 = 4;
/// One in so many settings stays after each step.
const KEPT: usize = 3;
/// A round ends with so many settings in all replications.
const LAST: usize = 4;

/// Searches for a better policy in the scenario's world. `beside` are worlds in which the result is judged and that the
/// search does not use. `done` is called after every run.
///
/// # Errors
/// Where the policy cannot be read, nothing can be searched, or nothing passes the linter.
pub fn improve(
    scenario: &Scenario,
    start: Start<'_>,
    beside: &[Scenario],
    effort: &Effort,
    done: &(dyn Fn() + Sync),
) -> Result<Improvement, Problem> {
    if let Err(mistakes) = ClientPolicy::of_text("written", start.text) {
        return Err(Problem::Policy(mistakes.to_string()));
    }
    let file = PolicyFile::new(start.text, start.service)?;
    let space = Space::new(file, start.service, &scenario.world)?;
    let mut search = Search {
        known: codes(&space.text(&space.bare())),
        space,
        scenario,
        effort,
        done,
        tried: Vec::new(),
        runs: 0,
        is_bill: false,
    };
    let best = search.best()?;
    let tuned = search.tried[best].client_policy.clone();
    let mut judged = Vec::new();
    for world in std::iter::once(scenario).chain(beside) {
        judged.push(search.judge(world, &tuned));
    }
    let policy = search.space.text(&search.tried[best].setting);
    let findings = lint(&policy).map_or_else(|_| Vec::new(), |report| report.findings);
    Ok(Improvement {
        seed: effort.seed,
        changes: search
            .space
            .differences(&search.space.written(), &search.tried[best].setting),
        policy,
        findings: findings
            .into_iter()
            .filter(|finding| finding.severity > Severity::Note)
            .collect(),
        left_out: search.space.left_out.clone(),
        is_bill: search.is_bill,
        tried: search.all(best),
        runs: search.runs,
        judged,
    })
}

struct Search<'a> {
    space: Space,
    scenario: &'a Scenario,
    effort: &'a Effort,
    done: &'a (dyn Fn() + Sync),
    /// What the linter says without any of the searched keys, which no setting can remove.
    known: Vec<&'static str>,
    tried: Vec<Candidate>,
    runs: usize,
    is_bill: bool,
}

struct Candidate {
    setting: Setting,
    client_policy: ClientPolicy,
    runs: Vec<Figures>,
}

/// The policy as it is written is always the first candidate: what all others are compared with.
const WRITTEN: usize = 0;

impl Search<'_> {
    /// The best setting.
    fn best(&mut self) -> Result<usize, Problem> {
        let written = self.space.written();
        let written_passes = self.passes(&written);
        self.add(written);
        let bare = self.space.bare();
        let mut round: Vec<usize> = self.new_of(vec![bare]);
        let mut chance = self.effort.seed.stream(0, Purpose::World);
        let wanted = self.effort.candidates.max(1) as usize;
        // Most draws are new and pass. Where few do, the search goes on with those.
        for _ in 0..20 * wanted {
            if round.len() >= wanted {
                break;
            }
            let drawn = self.space.draw(&mut chance);
            round.extend(self.new_of(vec![drawn]));
        }
        if written_passes {
            round.insert(0, WRITTEN);
        }
        self.run_until(&[WRITTEN], self.effort.replications as usize);
        let mut best = *self.halved(round, None).first().ok_or(Problem::NothingPasses)?;
        for _ in 0..ROUNDS {
            let neighbours = self.space.neighbours(&self.tried[best].setting);
            let round = self.new_of(neighbours);
            let ranked = self.halved(round, Some(best));
            if ranked[0] == best {
                break;
            }
            best = ranked[0];
        }
        Ok(best)
    }

    /// Adds those settings that were not tried yet and pass the linter.
    fn new_of(&mut self, settings: Vec<Setting>) -> Vec<usize> {
        let mut added = Vec::new();
        for setting in settings {
            if self.tried.iter().all(|known| known.setting != setting) && self.passes(&setting) {
                added.push(self.add(setting));
            }
        }
        added
    }

    fn add(&mut self, setting: Setting) -> usize {
        let text = self.space.text(&setting);
        let client_policy =
            ClientPolicy::of_text("tuned", &text).expect("the values of the search are those of a policy");
        self.tried.push(Candidate {
            setting,
            client_policy,
            runs: Vec::new(),
        });
        self.tried.len() - 1
    }

    /// Whether the linter finds nothing beyond notes and what no setting can remove.
    fn passes(&self, setting: &Setting) -> bool {
        codes(&self.space.text(setting))
            .iter()
            .all(|code| self.known.contains(code))
    }

    /// The last settings of a round, the best first. `champion` takes part to the end.
    fn halved(&mut self, mut round: Vec<usize>, champion: Option<usize>) -> Vec<usize> {
        let most = self.effort.replications.max(1) as usize;
        let mut replications = (most / (KEPT * KEPT)).max(1);
        while round.len() > LAST && replications < most {
            self.run_until(&round, replications);
            round = self.ranked(&round, replications);
            round.truncate(round.len().div_ceil(KEPT).max(LAST));
            replications *= KEPT;
        }
        round.splice(0..0, champion);
        self.run_until(&round, most);
        self.ranked(&round, most)
    }

    fn ranked(&self, round: &[usize], replications: usize) -> Vec<usize> {
        let figures: Vec<Figures> = round
            .iter()
            .map(|it| Figures::mean(&self.tried[*it].runs[..replications]))
            .collect();
        rank::order(&figures, self.effort.within)
            .into_iter()
            .map(|place| round[place])
            .collect()
    }

    /// Runs each of these until it has so many replications.
    fn run_until(&mut self, round: &[usize], replications: usize) {
        for number in 0..replications {
            let due: Vec<usize> = round
                .iter()
                .copied()
                .filter(|it| self.tried[*it].runs.len() == number)
                .collect();
            if due.is_empty() {
                continue;
            }
            let client_policies: Vec<ClientPolicy> = due
                .iter()
                .map(|it| self.tried[*it].client_policy.clone())
                .collect();
            let plan = self.plan(self.effort.seed.replication(number as u64), 1);
            let found = compare(
                &self.scenario.world,
                &client_policies,
                &self.scenario.fixed,
                &plan,
                &|_| {
                    (self.done)();
                },
            );
            self.runs += found.len();
            for (place, summary) in due.into_iter().zip(&found) {
                self.is_bill |= summary.first.bill() > 0.0;
                let figures = figures(summary, self.is_bill);
                self.tried[place].runs.push(figures);
            }
        }
    }

    fn plan(&self, seed: Seed, replications: u32) -> Plan {
        Plan {
            seed,
            replications,
            threads: self.effort.threads,
        }
    }

    /// Replications that the search does not reach.
    fn judge(&self, scenario: &Scenario, tuned: &ClientPolicy) -> Judged {
        let named = |name: &str, client_policy: &ClientPolicy| {
            let mut client_policy = client_policy.clone();
            name.clone_into(&mut client_policy.name);
            client_policy
        };
        let both = [
            named("as written", &self.tried[WRITTEN].client_policy),
            named("tuned", tuned),
        ];
        let plan = self.plan(
            self.effort.seed.replication(u64::MAX),
            self.effort.held_out.max(1),
        );
        let mut found = compare(&scenario.world, &both, &scenario.fixed, &plan, &|_| (self.done)());
        let tuned = found.pop().expect("two policies were compared");
        let written = found.pop().expect("two policies were compared");
        Judged {
            name: scenario.name.clone(),
            written,
            tuned,
        }
    }

    fn all(&self, best: usize) -> Vec<Tried> {
        let of = |(place, candidate): (usize, &Candidate)| {
            let replications = candidate.runs.len();
            Tried {
                changes: self
                    .space
                    .differences(&self.tried[WRITTEN].setting, &candidate.setting),
                figures: Figures::mean(&candidate.runs),
                tuned: Figures::mean(&self.tried[best].runs[..replications]),
                replications,
                is_tuned: place == best,
            }
        };
        self.tried.iter().enumerate().map(of).collect()
    }
}

/// The figures of one run.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn figures(summary: &Summary, is_bill: bool) -> Figures {
    let run = &summary.first;
    let requests: u64 = run.services.iter().map(|service| service.attempts).sum();
    Figures {
        goodput: run.goodput(),
        cost: if is_bill {
            run.bill()
        } else if run.successes == 0 {
            f64::INFINITY
        } else {
            requests as f64 / run.successes as f64
        },
        latency: run
            .latency
            .quantile(0.95)
            .map_or(f64::INFINITY, |nanos| nanos as f64 / 1e6),
    }
}

/// Warnings and errors of the linter.
fn codes(text: &str) -> Vec<&'static str> {
    match lint(text) {
        Ok(report) => report
            .findings
            .iter()
            .filter(|finding| finding.severity > Severity::Note)
            .map(|finding| finding.code)
            .collect(),
        Err(_) => vec!["mistake"],
    }
}

#[cfg(test)]
mod tests;
