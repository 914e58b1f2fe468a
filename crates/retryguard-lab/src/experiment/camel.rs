//! The names of keys in JSON.

use serde_json::Value;

/// The same JSON with its keys in camelCase, as all JSON that the command prints.
#[must_use]
pub fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (camel(&key), camel_case(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(camel_case).collect(),
        value => value,
    }
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_become_camel_case_and_values_stay() {
        let value = json!({"p95_ms": 1, "runs": [{"not_kept": "payment_errors"}], "a": null});
        assert_eq!(
            camel_case(value),
            json!({"p95Ms": 1, "runs": [{"notKept": "payment_errors"}], "a": null})
        );
    }
}
