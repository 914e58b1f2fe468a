//! The tournament: every known policy in many worlds.

mod draw;
mod page;
mod picture;
mod units;

use std::fmt::Write as _;

use retryguard_sim::{
    client_policy::ClientPolicy,
    comparison::Plan,
    tournament::{self, HELD_OUT, Tournament, WORLDS},
};
use serde_json::{Value, json};

use crate::{
    table::{WIDTH, within},
    verdict,
};
pub use draw::{Draw, draw};
pub use units::Units;
pub(crate) use units::merge;

/// By how much of the oracle's goodput a policy must be better to be called so.
const MARGIN: f64 = 0.01;

/// The policy whose losses are listed.
const OURS: &str = "retryguard";

/// Both sets of worlds.
pub struct Result {
    seed: u64,
    replications: u32,
    /// The worlds that settings were chosen by.
    tried: Tournament,
    /// Those that were drawn afterwards.
    held_out: Tournament,
}

/// How many runs a tournament consists of.
#[must_use]
pub fn runs(client_policies: &[ClientPolicy], plan: &Plan) -> usize {
    (WORLDS.len() + HELD_OUT.len()) * client_policies.len() * plan.replications as usize
}

/// Runs every policy in every world; `step` is called after each run.
#[must_use]
pub fn run(client_policies: &[ClientPolicy], plan: &Plan, step: &(dyn Fn() + Sync)) -> Result {
    let over = |worlds| tournament::run(worlds, client_policies, plan, &|_| step());
    Result {
        seed: plan.seed.0,
        replications: plan.replications,
        tried: over(WORLDS),
        held_out: over(HELD_OUT),
    }
}

impl Result {
    /// The tables: goodput, cost, and where ours loses.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "tournament: seed {}, {} worlds and {} held out, {} policies\n",
            self.seed,
            self.tried.rows.len(),
            self.held_out.rows.len(),
            self.tried.policies.len()
        );
        for (title, worlds) in [
            ("worlds that settings were chosen by", &self.tried),
            ("held-out worlds", &self.held_out),
        ] {
            let _ = write!(
                out,
                "\n{title}\n\ngoodput, in percent of the oracle's:\n\n{}\n\
                 requests sent to the target for each success, relative to the oracle:\n\n{}\n{}\n{}\n",
                within(&goodput_rows(worlds), WIDTH),
                within(&cost_rows(worlds), WIDTH),
                where_we_lose(worlds),
                verdict::ranking(&standing(worlds), OURS),
            );
        }
        out
    }

    /// The report in a folder.
    #[must_use]
    pub fn files(&self) -> Vec<(String, String)> {
        vec![
            ("README.md".to_owned(), page::markdown(self)),
            (
                "goodput.svg".to_owned(),
                picture::heat_map("Goodput in percent of the oracle's", &self.tried),
            ),
            (
                "goodput-held-out.svg".to_owned(),
                picture::heat_map(
                    "Goodput in percent of the oracle's, held-out worlds",
                    &self.held_out,
                ),
            ),
            ("result.json".to_owned(), self.json()),
            ("result.csv".to_owned(), self.csv()),
        ]
    }

    /// The result for other programs.
    #[must_use]
    pub fn json(&self) -> String {
        let policies: Vec<Value> = (0..self.tried.policies.len())
            .map(|policy| {
                let mut entry = overall(&self.tried, policy);
                entry["name"] = json!(self.tried.policies[policy]);
                entry["heldOut"] = overall(&self.held_out, policy);
                entry
            })
            .collect();
        let all = json!({
            "seed": self.seed,
            "replications": self.replications,
            "policies": policies,
            "worlds": worlds(&self.tried),
            "losses": losses(&self.tried),
            "heldOut": {"worlds": worlds(&self.held_out), "losses": losses(&self.held_out)},
        });
        format!("{all:#}\n")
    }

    /// One line for each policy in each world.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from("set,world,policy,successRate,goodput,cost,p95Ms\n");
        for (set, tournament) in [("tried", &self.tried), ("heldOut", &self.held_out)] {
            for row in &tournament.rows {
                for (policy, score) in tournament.policies.iter().zip(&row.scores) {
                    let _ = writeln!(
                        out,
                        "{set},{},{policy},{},{},{},{}",
                        row.world, score.success, score.goodput, score.cost, score.p95
                    );
                }
            }
        }
        out
    }
}

/// Every policy with its mean goodput and its mean cost.
fn standing(tournament: &Tournament) -> Vec<(&str, f64, f64)> {
    let names = tournament.policies.iter().enumerate();
    names
        .map(|(policy, name)| {
            (
                name.as_str(),
                tournament.overall(policy).0,
                tournament.cost(policy),
            )
        })
        .collect()
}

fn overall(tournament: &Tournament, policy: usize) -> Value {
    let (mean, worst) = tournament.overall(policy);
    json!({"goodput": mean, "worstGoodput": worst, "cost": tournament.cost(policy)})
}

/// What every policy reached in one world.
fn scores(tournament: &Tournament, row: &tournament::Row) -> Vec<Value> {
    let scores = tournament.policies.iter().zip(&row.scores);
    scores
        .map(|(name, score)| {
            json!({
                "name": name,
                "successRate": score.success,
                "goodput": score.goodput,
                "cost": score.cost,
                "p95Ms": score.p95,
            })
        })
        .collect()
}

fn worlds(tournament: &Tournament) -> Vec<Value> {
    let world = |row: &tournament::Row| {
        let policies = scores(tournament, row);
        json!({"name": row.world, "claim": row.claim, "policies": policies})
    };
    tournament.rows.iter().map(world).collect()
}

fn losses(tournament: &Tournament) -> Vec<Value> {
    tournament
        .losses(OURS, MARGIN)
        .iter()
        .map(|loss| json!({"world": loss.world, "goodput": loss.goodput, "better": loss.better, "best": loss.best}))
        .collect()
}

fn goodput_rows(tournament: &Tournament) -> Vec<Vec<String>> {
    let mut rows = vec![head(tournament)];
    for row in &tournament.rows {
        let cells = row
            .scores
            .iter()
            .map(|score| format!("{:.1}", 100.0 * score.goodput));
        rows.push(std::iter::once(row.world.clone()).chain(cells).collect());
    }
    let overall = |pick: fn((f64, f64)) -> f64| {
        (0..tournament.policies.len())
            .map(move |policy| format!("{:.1}", 100.0 * pick(tournament.overall(policy))))
    };
    rows.push(
        std::iter::once("mean".to_owned())
            .chain(overall(|(mean, _)| mean))
            .collect(),
    );
    rows.push(
        std::iter::once("worst".to_owned())
            .chain(overall(|(_, worst)| worst))
            .collect(),
    );
    rows
}

fn cost_rows(tournament: &Tournament) -> Vec<Vec<String>> {
    let mut rows = vec![head(tournament)];
    for row in &tournament.rows {
        let cells = row.scores.iter().map(|score| format!("{:.2}", score.cost));
        rows.push(std::iter::once(row.world.clone()).chain(cells).collect());
    }
    let means = (0..tournament.policies.len()).map(|policy| format!("{:.2}", tournament.cost(policy)));
    rows.push(std::iter::once("mean".to_owned()).chain(means).collect());
    rows
}

fn head(tournament: &Tournament) -> Vec<String> {
    std::iter::once("world".to_owned())
        .chain(tournament.policies.iter().cloned())
        .collect()
}

fn where_we_lose(tournament: &Tournament) -> String {
    if !tournament.policies.iter().any(|name| name == OURS) {
        return String::new();
    }
    let losses = tournament.losses(OURS, MARGIN);
    let mut out = if losses.is_empty() {
        format!(
            "{OURS} is within {:.0} % of the best everywhere.\n",
            100.0 * MARGIN
        )
    } else {
        format!(
            "{OURS} loses in {} of {} worlds:\n\n",
            losses.len(),
            tournament.rows.len()
        )
    };
    for loss in losses {
        let _ = writeln!(
            out,
            "- {}: {:.1} where {} has {:.1}",
            loss.world,
            100.0 * loss.goodput,
            loss.better,
            100.0 * loss.best
        );
    }
    for (what, share) in tournament.above_the_oracle() {
        let _ = writeln!(out, "- the oracle is no limit for {what}: {:.1}", 100.0 * share);
    }
    out
}
