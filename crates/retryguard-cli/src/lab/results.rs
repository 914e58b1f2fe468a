//! All runs of a matrix, to be looked up.

use std::collections::BTreeMap;

use retryguard_lab::{
    Configuration,
    experiment::{Figures, Machine, Outcome, Rule, SweepPoint, Trouble},
};
use serde_json::{Value, json};

use super::prediction::{Predicted, Swept};

/// All runs of a matrix.
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) outcomes: Vec<Outcome>,
    /// By fault and configuration.
    pub(super) predictions: BTreeMap<(Trouble, Configuration), Predicted>,
    pub(super) sweep: Option<Sweep>,
    /// How many runs were made at once.
    pub(super) at_once: u8,
}

/// The capacity sweep.
pub(super) struct Sweep {
    pub(super) scale: f64,
    pub(super) measured: Vec<SweepPoint>,
    pub(super) predicted: Swept,
}

impl Results {
    pub(super) fn new(machine: Machine, outcomes: Vec<Outcome>) -> Self {
        Self {
            machine,
            outcomes,
            predictions: BTreeMap::new(),
            sweep: None,
            at_once: 1,
        }
    }

    pub(super) fn outcome(&self, trouble: Trouble, configuration: Configuration) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| {
            outcome.fault == trouble.as_str() && outcome.configuration == configuration.letter()
        })
    }

    /// What was measured; none where it was not run, or the load was not kept.
    pub(super) fn figures(&self, trouble: Trouble, configuration: Configuration) -> Option<&Figures> {
        self.outcome(trouble, configuration)?.figures.as_ref()
    }

    /// The runs of a fault, in the order of the configurations.
    pub(super) fn of(&self, trouble: Trouble) -> impl Iterator<Item = (Configuration, &Outcome)> {
        Configuration::ALL
            .into_iter()
            .filter_map(move |it| Some((it, self.outcome(trouble, it)?)))
    }

    /// All of it for other programs, without the time lines.
    pub(super) fn json(&self) -> Value {
        let runs: Vec<Value> = self
            .outcomes
            .iter()
            .map(|outcome| {
                let mut run = serde_json::to_value(outcome).unwrap_or_default();
                if let Value::Object(run) = &mut run {
                    run.remove("seconds");
                }
                run
            })
            .collect();
        let sweep = self.sweep.as_ref().map(|sweep| {
            json!({"scale": sweep.scale, "points": serde_json::to_value(&sweep.measured).unwrap_or_default()})
        });
        json!({
            "format": super::report::FORMAT,
            "machine": serde_json::to_value(&self.machine).unwrap_or_default(),
            "at_once": self.at_once,
            "runs": runs,
            "sweep": sweep,
        })
    }
}

impl Sweep {
    pub(super) fn point(&self, workers: usize, rule: Rule) -> Option<&SweepPoint> {
        self.measured
            .iter()
            .find(|point| point.workers == workers && point.rule == rule)
    }

    /// The most workers with which retries at once did harm: two points in a hundred below no retries.
    pub(super) fn harm_up_to(&self) -> Option<usize> {
        let success = |workers, rule| Some(self.point(workers, rule)?.figures?.0);
        self.measured
            .iter()
            .map(|point| point.workers)
            .filter(|workers| {
                let pair = (success(*workers, Rule::None), success(*workers, Rule::Immediate));
                matches!(pair, (Some(none), Some(immediate)) if immediate < none - super::claims::MARGIN)
            })
            .max()
    }
}
