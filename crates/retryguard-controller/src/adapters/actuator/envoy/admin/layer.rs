//! What stands in an Envoy's admin layer, and whose it is.

use std::collections::BTreeMap;

use retryguard_core::ratio::Ratio;
use serde_json::Value;

use crate::adapters::actuator::envoy::keys;
use crate::adapters::actuator::instances::Mark;
use crate::domain::state::RetryState;

/// One Envoy's admin layer: its numbers. Non-numeric overrides are ignored.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layer {
    values: BTreeMap<String, f64>,
    /// What Envoy makes of all its layers.
    last: BTreeMap<String, String>,
}

impl Layer {
    /// From the answer of `/runtime`; `name` is the admin layer's in the bootstrap.
    pub(super) fn read(answer: &Value, name: &str) -> Result<Self, String> {
        let names: Vec<&str> = answer["layers"]
            .as_array()
            .ok_or("the answer of /runtime has no `layers`: is it an Envoy's admin endpoint?")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let place = names.iter().position(|other| *other == name).ok_or_else(|| {
            format!(
                "its runtime has no layer `{name}` but [{}]; add `{{name: {name}, admin_layer: {{}}}}` to its \
                 bootstrap, or write the name that it has under `layer`",
                names.join(", ")
            )
        })?;
        let mut layer = Self::default();
        for (key, entry) in answer["entries"].as_object().into_iter().flatten() {
            if let Some(number) = entry["layer_values"][place]
                .as_str()
                .and_then(|text| text.parse().ok())
            {
                layer.values.insert(key.clone(), number);
            }
            if let Some(last) = entry["final_value"].as_str() {
                layer.last.insert(key.clone(), last.to_owned());
            }
        }
        Ok(layer)
    }

    /// The clusters that bear our mark.
    pub(super) fn marked(&self) -> impl Iterator<Item = &str> {
        self.values.keys().filter_map(|key| keys::marked(key))
    }

    /// Whose the breaker of `cluster` is.
    pub(super) fn mark(&self, cluster: &str) -> Mark {
        let Some(desired) = keys::desired(cluster, &self.values) else {
            return Mark::None;
        };
        let theirs = self.theirs(cluster, desired);
        if theirs.is_empty() {
            Mark::Ours(desired)
        } else {
            Mark::Changed(format!("changed from elsewhere: {}", theirs.join(", ")))
        }
    }

    /// Keys of the breaker that are not as `desired` has them. The numbers of the ramp are not compared: another
    /// configuration of ours may have written them.
    fn theirs(&self, cluster: &str, desired: RetryState) -> Vec<String> {
        keys::entries(cluster, Ratio::ONE, desired)
            .into_iter()
            .filter(|(key, _)| keys::marked(key).is_none())
            .filter(|(key, value)| match self.values.get(key) {
                None => true,
                Some(found) => desired == RetryState::Off && found != value,
            })
            .map(|(key, _)| match self.values.get(&key) {
                Some(found) => format!("{key} to {}", keys::number(*found)),
                None => format!("{key} to nothing"),
            })
            .collect()
    }

    /// Numbers of the breaker that stand there without our mark: an operator's.
    pub(super) fn unmarked(&self, cluster: &str) -> Vec<String> {
        keys::all(cluster)
            .into_iter()
            .filter_map(|key| Some(format!("{key}={}", keys::number(*self.values.get(&key)?))))
            .collect()
    }

    /// What to send so that `desired` is true: a number for each key, or nothing where it shall go. Empty where all is
    /// as it should be. What was written over ours from elsewhere is left alone.
    pub(super) fn towards(
        &self,
        cluster: &str,
        budget: Ratio,
        desired: RetryState,
    ) -> Vec<(String, Option<f64>)> {
        let ours = keys::desired(cluster, &self.values);
        if desired == RetryState::Original && ours.is_none() {
            return Vec::new();
        }
        let entries = keys::entries(cluster, budget, desired);
        let keep = |key: &String, found: f64| {
            desired == RetryState::Original
                && keys::marked(key).is_none()
                && ours == Some(RetryState::Off)
                && found != 0.0
        };
        keys::all(cluster)
            .into_iter()
            .filter_map(|key| match (entries.get(&key), self.values.get(&key)) {
                (Some(wanted), found) if found != Some(wanted) => Some((key, Some(*wanted))),
                (None, Some(found)) if !keep(&key, *found) => Some((key, None)),
                _ => None,
            })
            .collect()
    }

    /// Keys of which Envoy makes something else than `desired`, because a layer above says so.
    pub(super) fn masked(&self, cluster: &str, budget: Ratio, desired: RetryState) -> Vec<String> {
        keys::entries(cluster, budget, desired)
            .into_iter()
            .filter_map(|(key, wanted)| {
                let last = self.last.get(&key).map_or("", String::as_str);
                (last.parse() != Ok(wanted)).then(|| format!("{key} is `{last}`"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(entries: &[(&str, &str)]) -> Layer {
        let entries: serde_json::Map<String, Value> = entries
            .iter()
            .map(|(key, value)| {
                let entry = json!({"final_value": value, "layer_values": ["", value]});
                ((*key).to_owned(), entry)
            })
            .collect();
        Layer::read(
            &json!({"layers": ["static", "admin"], "entries": entries}),
            "admin",
        )
        .unwrap()
    }

    fn after(layer: &Layer, changes: &[(String, Option<f64>)]) -> Layer {
        let mut layer = layer.clone();
        for (key, value) in changes {
            match value {
                Some(value) => layer.values.insert(key.clone(), *value),
                None => layer.values.remove(key),
            };
        }
        layer
    }

    #[test]
    fn off_ramp_and_back_leaves_nothing() {
        let empty = Layer::default();
        let budget = Ratio::percent(20);
        let off = after(&empty, &empty.towards("a", budget, RetryState::Off));
        assert_eq!(off.mark("a"), Mark::Ours(RetryState::Off));
        assert_eq!(off.towards("a", budget, RetryState::Off), []);
        let part = RetryState::Part {
            step: 1,
            share: Ratio::percent(25),
        };
        let ramp = after(&off, &off.towards("a", budget, part));
        assert_eq!(ramp.mark("a"), Mark::Ours(part));
        // Under another budget, the same desired state is still known for ours.
        assert_eq!(ramp.mark("b"), Mark::None);
        let back = after(&ramp, &ramp.towards("a", Ratio::ONE, RetryState::Original));
        assert_eq!(back, empty);
    }

    #[test]
    fn an_operators_number_is_not_ours() {
        let found = layer(&[("circuit_breakers.a.default.max_retries", "7")]);
        assert_eq!(found.mark("a"), Mark::None);
        assert_eq!(found.unmarked("a"), ["circuit_breakers.a.default.max_retries=7"]);
        assert_eq!(found.towards("a", Ratio::ONE, RetryState::Original), []);
    }

    #[test]
    fn what_was_written_over_ours_stands() {
        let empty = Layer::default();
        let mut found = after(&empty, &empty.towards("a", Ratio::ONE, RetryState::Off));
        let key = "circuit_breakers.a.default.retry_budget.budget_percent";
        found.values.insert(key.to_owned(), 40.0);
        assert!(matches!(found.mark("a"), Mark::Changed(what) if what.contains("to 40")));
        let back = after(&found, &found.towards("a", Ratio::ONE, RetryState::Original));
        assert_eq!(back.values, BTreeMap::from([(key.to_owned(), 40.0)]));
    }

    #[test]
    fn answers_of_any_shape_are_met_with_a_sentence() {
        for (answer, word) in [
            (json!({}), "layers"),
            (json!([1, 2]), "layers"),
            (json!({"layers": ["base", "rtds"]}), "[base, rtds]"),
        ] {
            assert!(Layer::read(&answer, "admin").unwrap_err().contains(word));
        }
        let odd = json!({"layers": ["admin"], "entries": {"a": 1, "b": {"layer_values": 3}, "c": {"layer_values": ["x"]}}});
        assert_eq!(Layer::read(&odd, "admin").unwrap(), Layer::default());
    }
}
