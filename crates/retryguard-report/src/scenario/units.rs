//! A sweep in units of work: each runs some of its worlds.

use std::ops::Range;

use retryguard_sim::{
    comparison::{Plan, ServiceSummary, Summary, compare},
    scenario::{Scenario, Texts},
    statistics::{Estimate, Tally},
    streams::Seed,
    world::World,
};
use serde_json::{Value, json};

use super::Outcome;
use crate::units::{Collected, damaged, file, items_of, text};

/// A sweep that is divided. World 0 is the scenario's own, the others are those of the sweep.
pub(crate) struct Swept<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) texts: &'s Texts,
    /// The path of the scenario, as a page shows it.
    pub(crate) path: String,
    /// The policy that the others are compared with.
    pub(crate) against: Option<&'s str>,
    pub(crate) units: u32,
}

/// The worlds of a scenario: its own, and those of its sweep.
fn worlds(scenario: &Scenario) -> Vec<&World> {
    let swept = scenario.sweep.iter().flat_map(|sweep| &sweep.worlds);
    std::iter::once(&scenario.world)
        .chain(swept.map(|(_, world)| world))
        .collect()
}

impl Swept<'_> {
    /// How many worlds there are.
    pub(crate) fn worlds(&self) -> u32 {
        u32::try_from(worlds(self.scenario).len()).unwrap_or(u32::MAX)
    }

    /// The numbers of the worlds of a unit.
    pub(crate) fn worlds_of(&self, unit: u32) -> Range<u32> {
        items_of(self.worlds(), self.units, unit)
    }

    /// What each unit runs, for a person who plans.
    pub(crate) fn text(&self, replications: u32) -> String {
        let Some(sweep) = &self.scenario.sweep else {
            return String::new();
        };
        let mut out = format!(
            "{} worlds in {} units; each world takes {} runs; world 0 is the scenario's own\n",
            self.worlds(),
            self.units,
            self.scenario.policies.len() * replications as usize
        );
        for unit in 0..self.units {
            let shown = |number: u32| match number.checked_sub(1) {
                None => "the scenario's own".to_owned(),
                Some(place) => format!("{} = {}", sweep.key, sweep.worlds[place as usize].0),
            };
            let worlds = self.worlds_of(unit);
            let (first, last) = (worlds.start, worlds.end - 1);
            out += &match first == last {
                true => format!("unit {unit}: world {first} ({})\n", shown(first)),
                false => format!(
                    "unit {unit}: worlds {first} to {last} ({} to {})\n",
                    shown(first),
                    shown(last)
                ),
            };
        }
        out
    }

    /// The name of a unit's file.
    pub(crate) fn file(&self, unit: u32) -> String {
        file(unit, self.units)
    }

    /// Runs a unit; the text is its file.
    pub(crate) fn run(&self, unit: u32, plan: &Plan, step: &(dyn Fn() + Sync)) -> String {
        let all = worlds(self.scenario);
        let scenario = self.scenario;
        let scores: Vec<Value> = self
            .worlds_of(unit)
            .map(|number| {
                let world = all[number as usize];
                let found = compare(world, &scenario.policies, &scenario.fixed, plan, &|_| step());
                found.iter().map(stored).collect()
            })
            .collect();
        let common = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "file": self.path,
            "name": self.texts.name,
            "scenario": self.texts.scenario,
            "named": self.texts.named,
            "against": self.against,
            "seed": plan.seed.0,
            "replications": plan.replications,
            "worlds": self.worlds(),
            "units": self.units,
        });
        text(&common, unit, &scores)
    }
}

/// The estimates of a service, in the order in which they are stored.
fn estimates(service: &ServiceSummary) -> [Estimate; 7] {
    [
        service.attempts,
        service.amplification,
        service.turned_away,
        service.largest,
        service.last,
        service.resizes,
        service.bill,
    ]
}

/// What a policy came to. Numbers are stored as bits, because a decimal number need not come back as the same one.
fn stored(summary: &Summary) -> Value {
    let bits = |values: &Option<Vec<f64>>| {
        let values = values.as_ref();
        values.map(|values| values.iter().map(|it| it.to_bits()).collect::<Vec<u64>>())
    };
    let estimate = |it: Estimate| (it.mean.to_bits(), it.half_width.map(f64::to_bits));
    let service = |it: &ServiceSummary| estimates(it).map(estimate);
    json!({
        "values": summary.values.iter().map(bits).collect::<Vec<_>>(),
        "services": summary.services.iter().map(service).collect::<Vec<_>>(),
    })
}

/// A policy in one world as it was stored. Its name and those of the services are the same in all worlds: those of `like`.
fn restored(like: &Summary, stored: &Value, replications: u32) -> Option<Summary> {
    let values = |it: &Value| -> Option<Option<Vec<f64>>> {
        if it.is_null() {
            return Some(None);
        }
        let number = |it: &Value| it.as_u64().map(f64::from_bits);
        let found: Vec<f64> = it.as_array()?.iter().map(number).collect::<Option<_>>()?;
        (found.len() == replications as usize).then_some(Some(found))
    };
    let values: Vec<Option<Vec<f64>>> = stored["values"]
        .as_array()?
        .iter()
        .map(values)
        .collect::<Option<_>>()?;
    let services = stored["services"].as_array()?;
    if values.len() != like.values.len() || services.len() != like.services.len() {
        return None;
    }
    let service = |(like, stored): (&ServiceSummary, &Value)| {
        let stored = stored.as_array().filter(|it| it.len() == 7)?;
        let estimate = |place: usize| {
            let half = &stored[place][1];
            Some(Estimate {
                mean: f64::from_bits(stored[place][0].as_u64()?),
                half_width: match half.is_null() {
                    true => None,
                    false => Some(f64::from_bits(half.as_u64()?)),
                },
            })
        };
        Some(ServiceSummary {
            name: like.name.clone(),
            attempts: estimate(0)?,
            amplification: estimate(1)?,
            turned_away: estimate(2)?,
            largest: estimate(3)?,
            last: estimate(4)?,
            resizes: estimate(5)?,
            bill: estimate(6)?,
        })
    };
    let estimated = |values: &Option<Vec<f64>>| {
        let tally: Tally = values.as_ref()?.iter().copied().collect();
        Some(tally.estimate())
    };
    Some(Summary {
        columns: values.iter().map(estimated).collect(),
        services: like
            .services
            .iter()
            .zip(services)
            .map(service)
            .collect::<Option<_>>()?,
        values,
        // The time lines of a sweep are not shown.
        ..like.clone()
    })
}

/// The result of a sweep whose units were run one by one, and the path of its scenario.
///
/// # Errors
/// Where a file is damaged, or the scenario comes to other numbers here.
pub(crate) fn merge(all: &Collected) -> Result<(Outcome, String), String> {
    let first = all.units.first().map_or("", |(name, _)| name.as_str());
    let plan = read_plan(&all.plan).ok_or_else(|| damaged(first))?;
    let scenario = plan.texts.read().map_err(|_| damaged(first))?;
    let worlds = worlds(&scenario).len();
    if worlds != plan.worlds as usize {
        return Err(damaged(first));
    }
    // One replication of the scenario's own world: it says whether this machine comes to the same numbers.
    let once = Plan {
        seed: plan.seed,
        replications: 1,
        threads: 1,
    };
    let like = compare(
        &scenario.world,
        &scenario.policies,
        &scenario.fixed,
        &once,
        &|_| (),
    );
    let mut found = Vec::new();
    for (unit, (name, scores)) in (0..).zip(&all.units) {
        if items_of(plan.worlds, plan.units, unit).len() != scores.len() {
            return Err(damaged(name));
        }
        for world in scores {
            let policies = world.as_array().filter(|it| it.len() == like.len());
            let policies = policies.ok_or_else(|| damaged(name))?;
            let each = like.iter().zip(policies);
            let restored = each.map(|(like, stored)| restored(like, stored, plan.replications));
            found.push(
                restored
                    .collect::<Option<Vec<Summary>>>()
                    .ok_or_else(|| damaged(name))?,
            );
        }
    }
    let mut found = found.into_iter();
    let policies = found.next().ok_or_else(|| damaged(first))?;
    for (here, there) in like.iter().zip(&policies) {
        // A column may say nothing of a world with several replications that it says something of with the first.
        let pairs = here.values.iter().zip(&there.values);
        let same = |(here, there): (&Option<Vec<f64>>, &Option<Vec<f64>>)| match (here, there) {
            (Some(here), Some(there)) => here[0].to_bits() == there[0].to_bits(),
            _ => true,
        };
        if !pairs.into_iter().all(same) {
            return Err(format!(
                "{first} was written by a command that comes to other numbers for {}; join the units with the command that ran them",
                here.name
            ));
        }
    }
    let labels = scenario.sweep.iter().flat_map(|sweep| &sweep.worlds);
    let sweep = labels.map(|(label, _)| label.clone()).zip(found).collect();
    let outcome = Outcome {
        scenario,
        seed: plan.seed.0,
        replications: plan.replications,
        policies,
        sweep,
        against: plan.against,
        until: None,
    };
    Ok((outcome, plan.path))
}

/// Whether units are those of a sweep.
pub(crate) fn is_sweep(plan: &Value) -> bool {
    plan["scenario"].is_string()
}

struct ReadPlan {
    texts: Texts,
    path: String,
    against: Option<String>,
    seed: Seed,
    replications: u32,
    worlds: u32,
    units: u32,
}

fn read_plan(plan: &Value) -> Option<ReadPlan> {
    let number = |key: &str| u32::try_from(plan[key].as_u64()?).ok();
    let word = |key: &str| plan[key].as_str().map(str::to_owned);
    let named = plan["named"].as_object()?.iter();
    Some(ReadPlan {
        texts: Texts {
            name: word("name")?,
            scenario: word("scenario")?,
            named: named
                .map(|(file, text)| Some((file.clone(), text.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
        },
        path: word("file")?,
        against: word("against"),
        seed: Seed(plan["seed"].as_u64()?),
        replications: number("replications").filter(|it| *it > 0)?,
        worlds: number("worlds")?,
        units: number("units")?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{scenario, units::collected};

    const PLAN: Plan = Plan {
        seed: Seed(5),
        replications: 2,
        threads: 2,
    };

    fn texts() -> Texts {
        let scenario = "duration: 20s\nservices:\n  store: {workers: 4, queue: 8, time: {exponential: 100ms}, errors: 10%}\n\
                        clients:\n  people: {calls: store, rate: 30, deadline: 2s}\n\
                        faults:\n  - {service: store, outage: true, from: 5s, until: 8s}\n\
                        policies: [none, immediate, own.yaml]\n\
                        sweep: {key: services.store.workers, values: [2, 4, 6, 8]}\n";
        Texts {
            name: "small".to_owned(),
            scenario: scenario.to_owned(),
            named: BTreeMap::from([("own.yaml".to_owned(), "defaults: {maxRetries: 1}\n".to_owned())]),
        }
    }

    fn files(texts: &Texts, units: u32, plan: &Plan) -> Vec<(String, String)> {
        let scenario = texts.read().unwrap();
        let swept = Swept {
            scenario: &scenario,
            texts,
            path: "small.yaml".to_owned(),
            against: Some("none"),
            units,
        };
        (0..units)
            .map(|unit| (swept.file(unit), swept.run(unit, plan, &|| ())))
            .collect()
    }

    fn error(files: &[(String, String)]) -> String {
        let merged = collected(files).and_then(|all| merge(&all));
        merged.map(|_| ()).unwrap_err()
    }

    #[test]
    fn units_in_any_order_give_the_bytes_of_one_run() {
        let texts = texts();
        let whole = scenario::run(texts.read().unwrap(), &PLAN, &|| ()).against("none".to_owned());
        for units in [1, 2, 5] {
            let mut files = files(&texts, units, &PLAN);
            files.reverse();
            let (merged, path) = merge(&collected(&files).unwrap()).unwrap();
            assert_eq!(merged.json(), whole.json());
            assert_eq!(merged.csv(), whole.csv());
            assert_eq!(merged.text(), whole.text());
            assert_eq!(merged.files(&path), whole.files("small.yaml"));
        }
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_name() {
        let texts = texts();
        let mut all = files(&texts, 5, &PLAN);
        let other = Texts {
            scenario: texts.scenario.replace("workers: 4", "workers: 5"),
            ..texts.clone()
        };
        let lost = std::mem::replace(&mut all[1], files(&other, 5, &PLAN)[1].clone());
        let told = error(&all);
        assert!(told.contains("different plans: `scenario`"), "{told}");
        all[1] = files(
            &texts,
            5,
            &Plan {
                seed: Seed(6),
                ..PLAN
            },
        )[1]
        .clone();
        assert!(error(&all).contains("different plans: `seed`"));
        all.remove(1);
        assert!(error(&all).contains("1 of 5 units are missing: 1;"));
        all.push((
            lost.0.clone(),
            lost.1.replacen("\"services\":[[[", "\"services\":[[[1,2],[", 1),
        ));
        assert!(error(&all).contains("is damaged"), "{}", error(&all));
        all.pop();
        all.push(lost);
        // A number of the scenario's own world that this command does not come to.
        let (_, first) = &mut all[0];
        let place = first.find("\"values\":[[").unwrap() + "\"values\":[[".len();
        first.replace_range(place..=place, "1");
        assert!(error(&all).contains("other numbers for none"), "{}", error(&all));
    }
}
