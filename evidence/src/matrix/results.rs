//! All runs of a matrix, to be looked up.

use std::collections::BTreeMap;

use retryguard_lab::{
    Configuration,
    experiment::{Figures, Machine, Outcome, Trouble, table},
};
use serde_json::{Value, json};

use super::{capacity::Sweep, prediction::Predictions};

/// All runs of a matrix.
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) outcomes: Vec<Outcome>,
    /// By fault and configuration.
    pub(super) predictions: Predictions,
    pub(super) sweep: Option<Sweep>,
    /// How many runs were made at once.
    pub(super) at_once: u8,
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
        let predictions: Vec<Value> = self
            .predictions
            .iter()
            .map(|((fault, configuration), predicted)| {
                let mut value = serde_json::to_value(predicted).unwrap_or_default();
                value["fault"] = json!(fault.as_str());
                value["configuration"] = json!(configuration.letter());
                value
            })
            .collect();
        let mut all = table::json(&self.machine, self.at_once, &self.outcomes);
        all["predictions"] = json!(predictions);
        all["sweep"] = json!(self.sweep.as_ref().map(Sweep::json));
        all
    }
}

impl Results {
    /// What [`Results::json`] wrote: all but the time lines.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let all: Value = serde_json::from_str(text)?;
        if all["format"] != table::FORMAT {
            anyhow::bail!(
                "it has format {}, and this program writes {}: make the runs again",
                all["format"],
                table::FORMAT
            );
        }
        let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
        let outcomes = list("runs")
            .into_iter()
            .map(serde_json::from_value)
            .collect::<Result<_, _>>()?;
        let mut results = Self::new(serde_json::from_value(all["machine"].clone())?, outcomes);
        for value in list("predictions") {
            let name = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let key = (name("fault").parse()?, name("configuration").parse()?);
            results.predictions.insert(key, serde_json::from_value(value)?);
        }
        results.at_once = serde_json::from_value(all["at_once"].clone())?;
        if !all["sweep"].is_null() {
            results.sweep = Some(Sweep::read(&all["sweep"])?);
        }
        Ok(results)
    }
}
