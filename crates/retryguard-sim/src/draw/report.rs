//! What policies came to in drawn worlds.

use std::collections::BTreeMap;

use super::{Drawn, KINDS, worlds};
use crate::{
    client_policy::{ClientPolicy, Rules},
    comparison::Plan,
    statistics::Tally,
    tournament::{ORACLE, Row, Tournament, run_drawn},
};

/// A peer is ahead where it serves more by this much of the oracle's goodput.
pub const AHEAD: f64 = 0.02;

/// A policy is above the oracle where it serves more by this much: then the oracle is not the limit it should be.
pub const ABOVE: f64 = 0.01;

/// A world is lost below this share of the oracle's goodput.
pub const GOAL: f64 = 0.98;

/// A policy that serves next to nothing sends any number of requests for each success: counted as so many.
pub const MOST_COST: f64 = 100.0;

/// A draw with its results.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed of the draw and of every run.
    pub seed: u64,
    /// How often each policy ran in each world.
    pub replications: u32,
    /// The worlds.
    pub worlds: Vec<Drawn>,
    /// The scores, a row for each world.
    pub result: Tournament,
    /// Which policies are those of other projects.
    foreign: Vec<bool>,
}

/// What a policy came to over some worlds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overall<'a> {
    /// Mean goodput, as a share of the oracle's.
    pub goodput: f64,
    /// The least.
    pub worst: f64,
    /// Where that was.
    pub worst_world: &'a str,
    /// Worlds below [`GOAL`].
    pub below: usize,
    /// Worlds in which a peer is ahead by more than [`AHEAD`].
    pub behind: usize,
    /// Mean requests for each success, relative to the oracle.
    pub cost: f64,
}

/// A table: its title, and its rows with the head first.
pub type Table = (String, Vec<Vec<String>>);

/// Draws worlds by the plan's seed and runs every policy in each. `done` is called after each run.
#[must_use]
pub fn judge(
    client_policies: &[ClientPolicy],
    plan: &Plan,
    count: u32,
    done: &(dyn Fn(usize) + Sync),
) -> Report {
    judge_some(client_policies, plan, count, &|_| true, done)
}

/// The same, in those of the drawn worlds that are wanted.
#[must_use]
pub fn judge_some(
    client_policies: &[ClientPolicy],
    plan: &Plan,
    count: u32,
    wanted: &dyn Fn(&Drawn) -> bool,
    done: &(dyn Fn(usize) + Sync),
) -> Report {
    let mut worlds = worlds(plan.seed, count);
    worlds.retain(wanted);
    judge_in(client_policies, plan, worlds, done)
}

/// The same, in these worlds.
#[must_use]
pub fn judge_in(
    client_policies: &[ClientPolicy],
    plan: &Plan,
    worlds: Vec<Drawn>,
    done: &(dyn Fn(usize) + Sync),
) -> Report {
    Report {
        seed: plan.seed.0,
        replications: plan.replications,
        foreign: client_policies.iter().map(is_foreign).collect(),
        result: run_drawn(&worlds, Drawn::scenario, client_policies, plan, done),
        worlds,
    }
}

/// Whether a policy is one of another project.
#[must_use]
pub const fn is_foreign(client_policy: &ClientPolicy) -> bool {
    matches!(client_policy.rules, Rules::Same(_)) && !client_policy.oracle
}

impl Report {
    /// A report of results that were computed elsewhere: the first worlds of a seed, with a row for each.
    #[must_use]
    pub fn of(plan: &Plan, worlds: Vec<Drawn>, result: Tournament, foreign: Vec<bool>) -> Self {
        Self {
            seed: plan.seed.0,
            replications: plan.replications,
            worlds,
            result,
            foreign,
        }
    }

    /// The scores of every world.
    #[must_use]
    pub fn rows(&self) -> Vec<&Row> {
        self.result.rows.iter().collect()
    }

    /// The worlds of each kind, in the order of the kinds.
    #[must_use]
    pub fn kinds(&self) -> Vec<(&'static str, Vec<&Row>)> {
        let mut by_kind: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for (drawn, row) in self.worlds.iter().zip(&self.result.rows) {
            by_kind.entry(drawn.kind).or_default().push(row);
        }
        KINDS
            .iter()
            .filter_map(|kind| by_kind.remove(kind.name).map(|rows| (kind.name, rows)))
            .collect()
    }

    /// What a policy came to over some worlds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a draw has few worlds")]
    pub fn overall<'a>(&self, policy: usize, rows: &[&'a Row]) -> Overall<'a> {
        let score = |row: &Row| row.scores[policy];
        let mean =
            |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64;
        let worst = rows
            .iter()
            .min_by(|a, b| score(a).goodput.total_cmp(&score(b).goodput));
        Overall {
            // A policy that serves more than the oracle does not make up for a world in which it serves less.
            goodput: mean(&|row| score(row).goodput.min(1.0)),
            worst: worst.map_or(f64::NAN, |row| score(row).goodput),
            worst_world: worst.map_or("", |row| &row.world),
            below: rows.iter().filter(|row| score(row).goodput < GOAL).count(),
            behind: rows
                .iter()
                .filter(|row| {
                    self.best_peer(policy, row)
                        .is_some_and(|(_, best)| best > score(row).goodput + AHEAD)
                })
                .count(),
            cost: mean(&|row| score(row).cost.min(MOST_COST)),
        }
    }

    /// The peer that serves most in a world, and its goodput.
    #[must_use]
    pub fn best_peer<'a>(&'a self, policy: usize, row: &Row) -> Option<(&'a str, f64)> {
        (0..self.result.policies.len())
            .filter(|&other| other != policy && self.foreign[other])
            .map(|other| (self.result.policies[other].as_str(), row.scores[other].goodput))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// A line for each policy.
    #[must_use]
    pub fn policy_rows(&self) -> Vec<Vec<String>> {
        let rows = self.rows();
        let mut out = vec![
            [
                "policy",
                "mean",
                "worst",
                "below 98",
                "peer ahead",
                "requests",
                "worst world",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (policy, name) in self.result.policies.iter().enumerate() {
            let it = self.overall(policy, &rows);
            out.push(vec![
                name.clone(),
                format!("{:.1}", 100.0 * it.goodput),
                format!("{:.1}", 100.0 * it.worst),
                it.below.to_string(),
                it.behind.to_string(),
                format!("{:.2}", it.cost),
                it.worst_world.to_owned(),
            ]);
        }
        out
    }

    /// A line for each policy beside the first: goodput, and the difference to the first over the same worlds with the same
    /// random numbers, in points, with its 95 % confidence interval. A difference whose interval holds zero is not significant.
    #[must_use]
    pub fn difference_rows(&self) -> Vec<Vec<String>> {
        let rows = self.rows();
        let kinds = self.kinds();
        let mut out = vec![
            [
                "policy",
                "mean",
                "change",
                "± 95 %",
                "worst",
                "requests",
                "worse in",
                "better in",
                "most in",
                "by",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (policy, name) in self.result.policies.iter().enumerate() {
            if name == ORACLE {
                continue;
            }
            let difference = |row: &Row| 100.0 * (row.scores[policy].goodput - row.scores[0].goodput);
            let change = |rows: &[&Row]| {
                rows.iter()
                    .map(|row| difference(row))
                    .collect::<Tally>()
                    .estimate()
            };
            let (it, all) = (self.overall(policy, &rows), change(&rows));
            let count = |wanted: &dyn Fn(f64) -> bool| {
                rows.iter()
                    .filter(|row| wanted(difference(row)))
                    .count()
                    .to_string()
            };
            let most = kinds
                .iter()
                .map(|(kind, rows)| (*kind, change(rows).mean))
                .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
                .filter(|(_, by)| *by != 0.0);
            let clear = all.half_width.is_some_and(|half| all.mean.abs() > half);
            out.push(vec![
                name.clone(),
                format!("{:.2}", 100.0 * it.goodput),
                if policy == 0 || clear {
                    format!("{:+.2}", all.mean)
                } else {
                    format!("({:+.2})", all.mean)
                },
                all.half_width
                    .map_or_else(String::new, |half| format!("{half:.2}")),
                format!("{:.1}", 100.0 * it.worst),
                format!("{:.3}", it.cost),
                count(&|by| by < -100.0 * AHEAD),
                count(&|by| by > 100.0 * AHEAD),
                most.map_or("", |(kind, _)| kind).to_owned(),
                most.map_or_else(String::new, |(_, by)| format!("{by:+.1}")),
            ]);
        }
        out
    }

    /// Tables with a line for each kind and a column for each policy.
    #[must_use]
    pub fn kind_tables(&self) -> Vec<Table> {
        type Cell = fn(&Overall<'_>) -> String;
        let kinds = self.kinds();
        let tables: [(&str, Cell); 3] = [
            ("mean goodput by kind", |it| format!("{:.1}", 100.0 * it.goodput)),
            ("worst goodput by kind", |it| format!("{:.1}", 100.0 * it.worst)),
            ("requests for each success by kind", |it| {
                format!("{:.2}", it.cost)
            }),
        ];
        tables
            .iter()
            .map(|(title, cell)| {
                let mut head = vec!["kind".to_owned(), "worlds".to_owned()];
                head.extend(self.result.policies.iter().cloned());
                let mut rows = vec![head];
                for (kind, of_kind) in &kinds {
                    let mut line = vec![(*kind).to_owned(), of_kind.len().to_string()];
                    let cells = 0..self.result.policies.len();
                    line.extend(cells.map(|policy| cell(&self.overall(policy, of_kind))));
                    rows.push(line);
                }
                ((*title).to_owned(), rows)
            })
            .collect()
    }

    /// The worlds in which a policy is below the goal or behind a peer, the worst first; none where it did not run.
    #[must_use]
    pub fn lost_worlds(&self, policy: &str) -> Option<Table> {
        let own = self.result.policies.iter().position(|name| name == policy)?;
        let mut lost: Vec<&Row> = self
            .result
            .rows
            .iter()
            .filter(|row| {
                let goodput = row.scores[own].goodput;
                goodput < GOAL
                    || self
                        .best_peer(own, row)
                        .is_some_and(|(_, best)| best > goodput + AHEAD)
            })
            .collect();
        lost.sort_by(|a, b| a.scores[own].goodput.total_cmp(&b.scores[own].goodput));
        let mut rows = vec![
            ["world", policy, "requests", "best peer", "its goodput"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for row in &lost {
            let (peer, best) = self.best_peer(own, row).unwrap_or(("", f64::NAN));
            rows.push(vec![
                row.world.clone(),
                format!("{:.1}", 100.0 * row.scores[own].goodput),
                format!("{:.2}", row.scores[own].cost),
                peer.to_owned(),
                format!("{:.1}", 100.0 * best),
            ]);
        }
        let title = format!(
            "{} worlds in which {policy} is below {:.0} % of the oracle or a peer is over {:.0} points ahead",
            lost.len(),
            100.0 * GOAL,
            100.0 * AHEAD
        );
        Some((title, rows))
    }

    /// Who served more than the oracle by more than [`ABOVE`], and where.
    #[must_use]
    pub fn above(&self) -> Vec<(&str, &Row, f64)> {
        let mut above = Vec::new();
        for row in &self.result.rows {
            for (name, score) in self.result.policies.iter().zip(&row.scores) {
                if name != ORACLE && score.goodput > 1.0 + ABOVE {
                    above.push((name.as_str(), row, score.goodput));
                }
            }
        }
        above
    }
}
