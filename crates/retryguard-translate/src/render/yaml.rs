//! JSON values as YAML.

use std::fmt::Write as _;

use serde_json::Value;

/// Block style; empty lists and maps in flow style.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let _ = write!(out, "{indent}{}:", scalar(&Value::String(key.clone())));
                below(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                block(item, depth + 1, &mut inner);
                // The first line of the item stands behind its dash.
                let inner = inner.get((depth + 1) * 2..).unwrap_or_default();
                let _ = write!(out, "{indent}- {inner}");
            }
        }
        value => {
            let _ = writeln!(out, "{indent}{}", scalar(value));
        }
    }
}

fn below(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, depth, out);
        }
        value => {
            let _ = writeln!(out, " {}", scalar(value));
        }
    }
}

/// A text is written plain only where no reader of YAML could take it for anything else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/'))
                && !matches!(
                    text.to_lowercase().as_str(),
                    "null" | "true" | "false" | "on" | "off" | "yes" | "no" | "y" | "n"
                );
            // A JSON string is a YAML string in double quotes.
            if plain { text.clone() } else { value.to_string() }
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_lists_and_awkward_texts_are_read_back() {
        let value = json!({"a": [{"b": 1, "c": ["x", "1s", "no"]}, []], "": {"@type": "a/b", "d": {}}, "e": [[1, 2], [3]]});
        let text = text(&value);
        let read = crate::tree::read(&text).unwrap();
        let root = &read[0];
        assert_eq!(root.get("a").unwrap().items().len(), 2, "{text}");
        let c = root.get("a").unwrap().items()[0].get("c").unwrap();
        assert_eq!(c.items()[1].text(), Some("1s"));
        assert_eq!(root.get("e").unwrap().items()[1].items().len(), 1, "{text}");
    }
}
