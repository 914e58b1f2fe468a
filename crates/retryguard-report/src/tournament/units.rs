//! A draw in units of work: each is run by itself, anywhere, and all of them together give the result of one run.

use std::ops::Range;

use retryguard_sim::{
    client_policy::ClientPolicy,
    comparison::Plan,
    draw::{Report, is_foreign, judge_in, world},
    streams::Seed,
    tournament::{Row, Score, Tournament},
};
use serde_json::{Value, json};

use super::draw::Draw;
use crate::units::{Collected, damaged, file, items_of, text};

/// What all units of a draw have in common.
#[derive(Debug, Clone, Copy)]
pub struct Units {
    /// Worlds of the whole draw.
    pub worlds: u32,
    /// Units that they are divided into; at most as many as there are worlds.
    pub units: u32,
    /// Whether the result is printed as an ablation.
    pub ablation: bool,
}

impl Units {
    /// The numbers of the worlds of a unit.
    #[must_use]
    pub fn worlds_of(&self, unit: u32) -> Range<u32> {
        items_of(self.worlds, self.units, unit)
    }

    /// What each unit runs, for a person who plans.
    #[must_use]
    pub fn text(&self, policies: usize, replications: u32) -> String {
        let mut out = format!(
            "{} worlds in {} units; each world takes {} runs\n",
            self.worlds,
            self.units,
            policies * replications as usize
        );
        for unit in 0..self.units {
            let worlds = self.worlds_of(unit);
            out += &format!("unit {unit}: worlds {} to {}\n", worlds.start, worlds.end - 1);
        }
        out
    }

    /// The name of a unit's file.
    #[must_use]
    pub fn file(&self, unit: u32) -> String {
        file(unit, self.units)
    }

    /// Runs a unit; the text is its file.
    #[must_use]
    pub fn run(
        &self,
        unit: u32,
        client_policies: &[ClientPolicy],
        plan: &Plan,
        done: &(dyn Fn() + Sync),
    ) -> String {
        let worlds = self
            .worlds_of(unit)
            .map(|number| world(plan.seed, number))
            .collect();
        let report = judge_in(client_policies, plan, worlds, &|_| done());
        let row = |row: &Row| -> Vec<[u64; 4]> {
            row.scores
                .iter()
                .map(|it| [it.success, it.goodput, it.cost, it.p95].map(f64::to_bits))
                .collect()
        };
        let policy =
            |it: &ClientPolicy| json!({"name": it.name, "digest": it.digest(), "foreign": is_foreign(it)});
        let plan = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "seed": plan.seed.0,
            "replications": plan.replications,
            "worlds": self.worlds,
            "units": self.units,
            "ablation": self.ablation,
            "policies": client_policies.iter().map(policy).collect::<Vec<_>>(),
        });
        // Bits, because a decimal number need not come back as the same one.
        let scores: Vec<Value> = report.result.rows.iter().map(|it| json!(row(it))).collect();
        text(&plan, unit, &scores)
    }
}

/// The result of a draw whose units were run one by one, and whether it is an ablation.
///
/// # Errors
/// Where a file is damaged.
pub(crate) fn merge(all: &Collected) -> Result<(Draw, bool), String> {
    let first = || all.units.first().map_or("", |(name, _)| name.as_str());
    let plan = read_plan(&all.plan).ok_or_else(|| damaged(first()))?;
    let mut rows = Vec::new();
    for (unit, (name, scores)) in (0..).zip(&all.units) {
        let worlds = plan.units.worlds_of(unit);
        if worlds.len() != scores.len() {
            return Err(damaged(name));
        }
        for (number, scores) in worlds.zip(scores) {
            let scores = read_scores(scores, plan.policies.len()).ok_or_else(|| damaged(name))?;
            rows.push((number, scores));
        }
    }
    Ok((plan.draw(rows), plan.units.ablation))
}

struct ReadPlan {
    units: Units,
    plan: Plan,
    policies: Vec<String>,
    foreign: Vec<bool>,
}

fn read_plan(plan: &Value) -> Option<ReadPlan> {
    let number = |key: &str| u32::try_from(plan[key].as_u64()?).ok();
    let policies = plan["policies"].as_array()?;
    let units = Units {
        worlds: number("worlds")?,
        units: number("units")?,
        ablation: plan["ablation"].as_bool()?,
    };
    Some(ReadPlan {
        units,
        plan: Plan {
            seed: Seed(plan["seed"].as_u64()?),
            replications: number("replications")?,
            threads: 1,
        },
        policies: policies
            .iter()
            .map(|it| it["name"].as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
        foreign: policies
            .iter()
            .map(|it| it["foreign"].as_bool())
            .collect::<Option<_>>()?,
    })
}

impl ReadPlan {
    fn draw(&self, rows: Vec<(u32, Vec<Score>)>) -> Draw {
        let mut worlds = Vec::new();
        let mut result = Tournament {
            policies: self.policies.clone(),
            rows: Vec::new(),
        };
        for (number, scores) in rows {
            let drawn = world(self.plan.seed, number);
            result.rows.push(Row {
                world: drawn.name.clone(),
                claim: String::new(),
                scores,
            });
            worlds.push(drawn);
        }
        Draw::of(Report::of(&self.plan, worlds, result, self.foreign.clone()))
    }
}

fn read_scores(world: &Value, policies: usize) -> Option<Vec<Score>> {
    let score = |it: &Value| {
        let bits = |index: usize| it[index].as_u64().map(f64::from_bits);
        Some(Score {
            success: bits(0)?,
            goodput: bits(1)?,
            cost: bits(2)?,
            p95: bits(3)?,
        })
    };
    let scores: Vec<Score> = world.as_array()?.iter().map(score).collect::<Option<_>>()?;
    (scores.len() == policies).then_some(scores)
}

#[cfg(test)]
mod tests {
    use retryguard_sim::client_policy::named;

    use super::*;
    use crate::{tournament::draw, units::collected};

    const PLAN: Plan = Plan {
        seed: Seed(5),
        replications: 1,
        threads: 2,
    };

    fn client_policies() -> Vec<ClientPolicy> {
        ["none", "immediate", "oracle"]
            .iter()
            .filter_map(|name| named(name))
            .collect()
    }

    fn units(worlds: u32, units: u32) -> Units {
        Units {
            worlds,
            units,
            ablation: false,
        }
    }

    fn files(units: Units) -> Vec<(String, String)> {
        (0..units.units)
            .map(|unit| {
                (
                    units.file(unit),
                    units.run(unit, &client_policies(), &PLAN, &|| ()),
                )
            })
            .collect()
    }

    fn merge(files: &[(String, String)]) -> Result<(Draw, bool), String> {
        super::merge(&collected(files)?)
    }

    fn error(files: &[(String, String)]) -> String {
        merge(files).map(|_| ()).unwrap_err()
    }

    #[test]
    fn every_world_belongs_to_one_unit() {
        for (worlds, count) in [(1, 1), (7, 3), (1000, 64), (100_000, 99_999), (100_000, 100_000)] {
            let plan = units(worlds, count);
            let mut next = 0;
            for unit in 0..count {
                let range = plan.worlds_of(unit);
                assert_eq!(range.start, next);
                assert!(!range.is_empty(), "unit {unit} of {count} in {worlds}");
                next = range.end;
            }
            assert_eq!(next, worlds);
        }
    }

    #[test]
    fn units_in_any_order_give_the_bytes_of_one_run() {
        let whole = draw(&client_policies(), &PLAN, 5, &|| ());
        for count in [1, 2, 5] {
            let mut files = files(units(5, count));
            files.reverse();
            let (merged, ablation) = merge(&files).unwrap();
            assert!(!ablation);
            assert_eq!(merged.json(), whole.json());
            assert_eq!(merged.csv(), whole.csv());
            assert_eq!(merged.text(), whole.text());
            assert_eq!(merged.files(), whole.files());
        }
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_name() {
        let mut all = files(units(4, 4));
        let lost = all.remove(2);
        assert!(
            error(&all).contains("1 of 4 units are missing: 2;"),
            "{}",
            error(&all)
        );
        all.push(lost.clone());
        assert!(merge(&all).is_ok());
        all.push(("copy.json".to_owned(), lost.1.clone()));
        assert!(error(&all).contains("are both unit 2"), "{}", error(&all));
        all.pop();
        let other = files(units(4, 2)).remove(0);
        all.push(other);
        let told = error(&all);
        assert!(
            told.contains("different plans") && told.contains("`units`"),
            "{told}"
        );
        all.pop();
        let cut = lost.1[..lost.1.len() / 2].to_owned();
        all.retain(|(name, _)| *name != lost.0);
        all.push((lost.0.clone(), cut));
        assert!(error(&all).contains("run its unit again"), "{}", error(&all));
        all.pop();
        all.push(("notes.json".to_owned(), "{}".to_owned()));
        assert!(
            error(&all).contains("notes.json is not the result"),
            "{}",
            error(&all)
        );
        let short = lost.1.replace("\"scores\":[[", "\"scores\":[[[1,2,3,4],");
        all.pop();
        all.push((lost.0, short));
        assert!(error(&all).contains("is damaged"), "{}", error(&all));
        assert!(error(&[]).contains("there is no unit-*.json"));
    }
}
