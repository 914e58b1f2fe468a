//! Payments of more and less capacity under errors that come anyway, and where retries turn from help
//! to harm.

mod section;

use std::path::PathBuf;

use clap::Args;
use retryguard_lab::{
    TimeScale,
    experiment::{self, Machine, Phases, Point, Rule, SWEPT, SWEPT_PHASES, Stores, SweepPoint, load_of},
};
use serde_json::{Value, json};

pub(super) use section::{picture, section};

use super::{
    claims::MARGIN,
    prediction::{self, Swept},
    stores, tables,
};
use crate::output;

/// Below this scale its 36 orders a second would be more than 180.
const LEAST_SCALE: f64 = 0.2;

/// What the files of a report look like; another number where that changes.
const FORMAT: u32 = 1;

/// Sweeps the capacity of payments and tells where retries turn from help to harm.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    stores: stores::Choice,
    /// The factor on all durations, 0.2 at the least.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// The seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Warm-up, fault and recovery in seconds.
    #[arg(long, value_name = "W+F+R", default_value_t = SWEPT_PHASES)]
    phases: Phases,
    /// How many points at once, 1 to 16.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    at_once: u8,
    /// How often a point is made that does not keep its load, 1 to 16: a machine that halts for a quarter of a second spoils one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    tries: u8,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// The folder that results are written into.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A sweep that is to be made.
pub(super) struct Plan {
    pub(super) stores: Stores,
    pub(super) scale: f64,
    pub(super) seed: u64,
    pub(super) phases: Phases,
    pub(super) at_once: u8,
    pub(super) tries: u8,
}

/// A sweep that was made.
pub(super) struct Sweep {
    pub(super) machine: Machine,
    pub(super) stores: String,
    pub(super) scale: f64,
    pub(super) seed: u64,
    pub(super) phases: Phases,
    pub(super) at_once: u8,
    pub(super) measured: Vec<SweepPoint>,
    pub(super) predicted: Swept,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let sweep = Plan {
            stores: self.stores.stores()?,
            scale: self.time_scale,
            seed: self.seed,
            phases: self.phases,
            at_once: self.at_once,
            tries: self.tries,
        }
        .run()?;
        if let Some(folder) = &self.out {
            output::write(folder, &sweep.files())?;
        }
        output::print(&if self.json {
            format!("{:#}\n", sweep.json())
        } else {
            section::terminal(&sweep)
        })
    }
}

impl Plan {
    pub(super) fn run(&self) -> anyhow::Result<Sweep> {
        let scale = TimeScale::new(self.scale)?;
        if self.scale < LEAST_SCALE {
            anyhow::bail!(
                "a time scale of {} would make a sweep of {:.0} orders a second: write {LEAST_SCALE} or more",
                self.scale,
                experiment::RATE / self.scale
            );
        }
        let machine = Machine::now();
        let predicted = prediction::sweep(self.seed)?;
        let mut points = Vec::new();
        for workers in SWEPT {
            for rule in Rule::ALL {
                points.push(Point {
                    stores: self.stores.clone(),
                    scale,
                    seed: self.seed,
                    workers,
                    rule,
                    phases: self.phases,
                    tries: self.tries,
                });
            }
        }
        eprintln!("{machine}");
        let stores = self.stores.as_str().to_owned();
        let said = |point: &SweepPoint| {
            retryguard_lab::load::say(&format!(
                "sweep stores={stores} scale={} seed={} policy={} phases={} workers={} rule={}: {}",
                self.scale,
                self.seed,
                point.digest,
                self.phases,
                point.workers,
                point.rule.as_str(),
                tables::swept(point)
            ));
        };
        let measured =
            retryguard_lab::block_on(experiment::sweep_all(points, usize::from(self.at_once), said))?;
        Ok(Sweep {
            machine,
            stores,
            scale: self.scale,
            seed: self.seed,
            phases: self.phases,
            at_once: self.at_once,
            measured,
            predicted,
        })
    }
}

impl Sweep {
    fn point(&self, workers: usize, rule: Rule) -> Option<&SweepPoint> {
        self.measured
            .iter()
            .find(|point| point.workers == workers && point.rule == rule)
    }

    /// Success and amplification of a point that kept its load.
    pub(super) fn figures(&self, workers: usize, rule: Rule) -> Option<(f64, f64)> {
        self.point(workers, rule)?.figures
    }

    /// The numbers of workers for which something holds, in words for a verdict; none where it holds nowhere.
    ///
    /// What holds for the fewest workers and for all up to some number holds beyond a load.
    pub(super) fn where_it_holds(&self, holds: impl Fn(usize) -> Option<bool>) -> Option<String> {
        let yes: Vec<usize> = SWEPT
            .into_iter()
            .filter(|workers| holds(*workers) == Some(true))
            .collect();
        let most = *yes.last()?;
        if SWEPT.starts_with(&yes) && most < SWEPT[SWEPT.len() - 1] {
            return Some(format!(
                "beyond a load of payments that lies between {:.2} and {:.2}, before any retry",
                load_of(SWEPT[yes.len()]),
                load_of(most)
            ));
        }
        let loads: Vec<String> = yes
            .iter()
            .map(|workers| format!("{:.2}", load_of(*workers)))
            .collect();
        Some(format!(
            "at loads of payments of {}, before any retry",
            loads.join(", ")
        ))
    }

    /// Whether retries at once pay less than none by more than chance.
    pub(super) fn harms(&self, workers: usize) -> Option<bool> {
        let (none, immediate) = (
            self.figures(workers, Rule::None)?,
            self.figures(workers, Rule::Immediate)?,
        );
        Some(immediate.0 < none.0 - MARGIN)
    }

    /// What [`Sweep::json`] wrote.
    pub(super) fn read(all: &Value) -> anyhow::Result<Self> {
        if all["format"] != FORMAT {
            anyhow::bail!(
                "a sweep of format {}, and this program writes {FORMAT}: make it again",
                all["format"]
            );
        }
        let (mut measured, mut predicted): (Vec<SweepPoint>, Swept) = Default::default();
        for value in all["points"].as_array().into_iter().flatten() {
            let point: SweepPoint = serde_json::from_value(value.clone())?;
            let both = serde_json::from_value(value["predicted"].clone())?;
            predicted.insert((point.workers, point.rule.as_str()), both);
            measured.push(point);
        }
        Ok(Self {
            machine: serde_json::from_value(all["machine"].clone())?,
            stores: serde_json::from_value(all["stores"].clone())?,
            scale: serde_json::from_value(all["scale"].clone())?,
            seed: serde_json::from_value(all["seed"].clone())?,
            phases: all["phases"].as_str().unwrap_or_default().parse()?,
            at_once: serde_json::from_value(all["at_once"].clone())?,
            measured,
            predicted,
        })
    }

    /// The page with its picture and its numbers.
    pub(super) fn files(&self) -> [(String, String); 3] {
        [
            ("sweep.json".to_owned(), format!("{:#}\n", self.json())),
            ("capacity.svg".to_owned(), picture(self)),
            ("README.md".to_owned(), section::page(self)),
        ]
    }

    /// All of it for other programs.
    pub(super) fn json(&self) -> Value {
        let points: Vec<Value> = self
            .measured
            .iter()
            .map(|point| {
                let mut value = serde_json::to_value(point).unwrap_or_default();
                let predicted = self.predicted.get(&(point.workers, point.rule.as_str()));
                value["predicted"] = json!(predicted);
                value
            })
            .collect();
        json!({
            "format": FORMAT,
            "machine": serde_json::to_value(&self.machine).unwrap_or_default(),
            "stores": self.stores,
            "scale": self.scale,
            "seed": self.seed,
            "phases": self.phases.to_string(),
            "at_once": self.at_once,
            "points": points,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence/lab-sweep/");

    fn committed(name: &str) -> String {
        std::fs::read_to_string(format!("{COMMITTED}{name}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The page says what its numbers say, in the words of this program.
    #[test]
    fn the_committed_page_is_made_of_its_numbers() {
        let sweep = Sweep::read(&serde_json::from_str(&committed("sweep.json")).unwrap()).unwrap();
        let again = "run `cargo xtask evidence sweep` as docs/lab.md says, and commit what it writes";
        assert!(
            section::page(&sweep) == committed("README.md"),
            "README.md: {again}"
        );
        assert!(
            picture(&sweep) == committed("capacity.svg"),
            "capacity.svg: {again}"
        );
        let fresh = prediction::sweep(sweep.seed).unwrap();
        assert_eq!(sweep.predicted.len(), SWEPT.len() * Rule::ALL.len(), "{again}");
        for (point, (success, amplification)) in &sweep.predicted {
            let new = fresh[point];
            let same = (new.0 - success).abs() < 1e-9 && (new.1 - amplification).abs() < 1e-9;
            assert!(same, "the simulator predicts {new:?} for {point:?}: {again}");
        }
    }

    #[test]
    fn where_something_holds_is_told_as_a_load() {
        let sweep = Sweep::read(&serde_json::from_str(&committed("sweep.json")).unwrap()).unwrap();
        let told = |yes: &[usize]| sweep.where_it_holds(|workers| Some(yes.contains(&workers)));
        assert_eq!(told(&[]), None);
        assert!(told(&[2, 3]).unwrap().contains("between 0.90 and 1.20"));
        assert!(told(&[5]).unwrap().contains("loads of payments of 0.72,"));
        assert!(told(&SWEPT).unwrap().contains("1.80, 1.20"));
        assert_eq!(sweep.where_it_holds(|_| None), None);
    }
}
