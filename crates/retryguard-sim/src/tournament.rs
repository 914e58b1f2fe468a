//! Every known policy in many worlds, beside one that knows what no real client can know.
//!
//! The worlds are files of the catalogue. No policy is tuned to a single one of them: each runs with the
//! settings that it has everywhere. The default breaker was chosen by [`WORLDS`] as a whole, so what they say of
//! our policy is not a judgement; [`HELD_OUT`] was drawn afterwards and chose nothing.

use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    client_policy::{ClientPolicy, Extra, NAMES, named},
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
};

macro_rules! world {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../scenarios/tournament/", $name, ".yaml")),
        )
    };
}

macro_rules! held_out {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../scenarios/tournament-held-out/", $name, ".yaml")),
        )
    };
}

/// Worlds by their names, with their files.
pub type Worlds = [(&'static str, &'static str)];

/// Worlds that were drawn at random when every setting had been chosen, and before any policy had run in them.
pub const HELD_OUT: &Worlds = &[
    held_out!("fan-out-outage"),
    held_out!("fan-out-slow"),
    held_out!("fan-out-slow-2"),
    held_out!("fan-out-surge"),
    held_out!("one-broken-replica"),
    held_out!("one-capacity-loss"),
    held_out!("one-errors"),
    held_out!("one-errors-and-surge"),
    held_out!("one-overload"),
    held_out!("one-surge"),
    held_out!("three-layers-broken-replica"),
    held_out!("three-layers-broken-replica-2"),
    held_out!("three-layers-error-burst"),
    held_out!("three-layers-flapping"),
    held_out!("three-layers-flapping-2"),
    held_out!("two-layers-slow"),
];

/// The worlds that everything was tried in.
pub const WORLDS: &Worlds = &[
    world!("stable"),
    world!("errors-01"),
    world!("errors-05"),
    world!("errors-25"),
    world!("errors-60"),
    world!("overload-105"),
    world!("overload-120"),
    world!("overload-150"),
    world!("overload-300"),
    world!("random-and-overload"),
    world!("load-errors"),
    world!("slow-mode"),
    world!("capacity-loss"),
    world!("autoscaler-lag"),
    world!("table-scaling"),
    world!("flapping"),
    world!("burst-attack"),
    world!("broken-replica"),
    world!("cold-start"),
    world!("recovery"),
    world!("metastable"),
    world!("light-load"),
    world!("closed-loop"),
    world!("many-clients"),
    world!("deep-errors"),
    world!("deep-outage"),
    world!("deep-overload"),
];

/// The policy that the others are measured by.
pub const ORACLE: &str = "oracle";

/// The whole tournament.
#[derive(Debug, Clone)]
pub struct Tournament {
    /// The policies, in the order of every row.
    pub policies: Vec<String>,
    /// The worlds.
    pub rows: Vec<Row>,
}

/// One world.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub world: String,
    /// What it is.
    pub claim: String,
    /// How each policy fared.
    pub scores: Vec<Score>,
}

/// How a policy fared in a world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The share of calls that succeeded.
    pub success: f64,
    /// Successful calls, as a share of the oracle's.
    pub goodput: f64,
    /// Requests sent to the target for each call that succeeded, as a share of the oracle's.
    pub cost: f64,
    /// The 95th percentile of the time that calls took, in milliseconds.
    pub p95: f64,
}

/// A world in which a policy is not among the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The world.
    pub world: String,
    /// Its goodput there.
    pub goodput: f64,
    /// Who did best.
    pub better: String,
    /// The best goodput there, the oracle's aside.
    pub best: f64,
}

/// The policies of the tournament: all that are known but the adaptive limits of other projects, which have to be named.
#[must_use]
pub fn policies() -> Vec<ClientPolicy> {
    NAMES
        .iter()
        .filter_map(|(name, _)| named(name))
        .filter(|client_policy| !matches!(client_policy.extra, Extra::Adaptive(_)))
        .collect()
}

/// The scenario of a world.
///
/// # Panics
///
/// Where a file of the catalogue has a mistake, which a test excludes.
#[must_use]
pub fn scenario(name: &str, text: &str) -> Scenario {
    Scenario::parse(text, name, &mut |path| {
        Err(format!("{path} is not part of the tournament"))
    })
    .unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"))
}

/// Runs every policy in every one of the worlds. `done` is called after each run.
#[must_use]
pub fn run(
    worlds: &Worlds,
    client_policies: &[ClientPolicy],
    plan: &Plan,
    done: &(dyn Fn(usize) + Sync),
) -> Tournament {
    let rows = worlds
        .iter()
        .map(|(name, text)| {
            let scenario = scenario(name, text);
            let summaries = compare(&scenario.world, client_policies, &scenario.fixed, plan, done);
            row(&scenario, &summaries)
        })
        .collect();
    Tournament {
        policies: client_policies
            .iter()
            .map(|client_policy| client_policy.name.clone())
            .collect(),
        rows,
    }
}

/// Runs every policy in drawn worlds, as many worlds at once as the plan has threads. `done` is called after each
/// run; `scenario` makes the scenario of a world. The result does not depend on the number of threads.
///
/// # Panics
///
/// Where a run does.
#[must_use]
pub fn run_drawn<W: Sync>(
    worlds: &[W],
    scenario: impl Fn(&W) -> Scenario + Sync,
    client_policies: &[ClientPolicy],
    plan: &Plan,
    done: &(dyn Fn(usize) + Sync),
) -> Tournament {
    let next = AtomicUsize::new(0);
    let rows: Vec<OnceLock<Row>> = worlds.iter().map(|_| OnceLock::new()).collect();
    let alone = Plan { threads: 1, ..*plan };
    let work = || {
        while let Some((drawn, place)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            worlds.get(index).zip(rows.get(index))
        } {
            let scenario = scenario(drawn);
            let summaries = compare(&scenario.world, client_policies, &scenario.fixed, &alone, done);
            let fresh = place.set(row(&scenario, &summaries));
            fresh.expect("every world is run once");
        }
    };
    std::thread::scope(|scope| {
        let threads = plan.threads.clamp(1, worlds.len().max(1));
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    Tournament {
        policies: client_policies
            .iter()
            .map(|client_policy| client_policy.name.clone())
            .collect(),
        rows: rows
            .into_iter()
            .map(|row| row.into_inner().expect("every world was run"))
            .collect(),
    }
}

fn row(scenario: &Scenario, summaries: &[Summary]) -> Row {
    let successes = |summary: &Summary| summary.mean("goodputPerSecond");
    let per_success = |summary: &Summary| {
        let calls = summary.mean("calls") * summary.mean("successRate");
        summary.mean("attempts") / calls.max(1.0)
    };
    let oracle = summaries.iter().find(|summary| summary.name == ORACLE);
    let (best, cheapest) = oracle.map_or((1.0, 1.0), |oracle| (successes(oracle), per_success(oracle)));
    Row {
        world: scenario.name.clone(),
        claim: scenario.claim.trim().to_owned(),
        scores: summaries
            .iter()
            .map(|summary| Score {
                success: summary.mean("successRate"),
                goodput: successes(summary) / best,
                cost: per_success(summary) / cheapest,
                p95: summary.mean("p95Ms"),
            })
            .collect(),
    }
}

impl Tournament {
    /// A policy's mean goodput over all worlds, and its worst.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a tournament has few worlds")]
    pub fn overall(&self, policy: usize) -> (f64, f64) {
        let goodputs = self.rows.iter().map(|row| row.scores[policy].goodput);
        let mean = goodputs.clone().sum::<f64>() / self.rows.len().max(1) as f64;
        (mean, goodputs.fold(f64::INFINITY, f64::min))
    }

    /// A policy's mean cost over all worlds in which it served anything worth speaking of.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a tournament has few worlds")]
    pub fn cost(&self, policy: usize) -> f64 {
        let costs: Vec<f64> = self
            .rows
            .iter()
            .map(|row| row.scores[policy])
            .map(|it| it.cost)
            .collect();
        costs.iter().sum::<f64>() / costs.len().max(1) as f64
    }

    /// The worlds in which another policy, the oracle aside, served more than this policy by more than
    /// `margin` of the oracle's goodput.
    #[must_use]
    pub fn losses(&self, policy: &str, margin: f64) -> Vec<Loss> {
        let Some(own) = self.policies.iter().position(|name| name == policy) else {
            return Vec::new();
        };
        let mut losses = Vec::new();
        for row in &self.rows {
            let others = self
                .policies
                .iter()
                .zip(&row.scores)
                .filter(|(name, _)| *name != ORACLE);
            let best = others.max_by(|a, b| a.1.goodput.total_cmp(&b.1.goodput));
            if let Some((name, best)) = best
                && best.goodput > row.scores[own].goodput + margin
            {
                losses.push(Loss {
                    world: row.world.clone(),
                    goodput: row.scores[own].goodput,
                    better: name.clone(),
                    best: best.goodput,
                });
            }
        }
        losses
    }

    /// The worlds in which a policy served more than the oracle, which should not be: how much, by policy.
    #[must_use]
    pub fn above_the_oracle(&self) -> BTreeMap<String, f64> {
        let mut above = BTreeMap::new();
        for row in &self.rows {
            for (name, score) in self.policies.iter().zip(&row.scores) {
                if score.goodput > 1.01 {
                    above.insert(format!("{name} in {}", row.world), score.goodput);
                }
            }
        }
        above
    }
}
