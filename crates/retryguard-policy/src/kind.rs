//! What may be written at a key, as readers of files other than policies say it.

use serde_json::{Value, json};

/// A duration, as a regular expression.
pub(crate) const PATTERN: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$";

/// What may be written at a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A duration, such as `1.5s`.
    Duration,
    /// A duration, or the word `off`.
    DurationOrOff,
    /// A share such as `20%` or `0.2`, up to so much.
    Share(f64),
    /// A number within limits.
    Number(f64, f64),
    /// A whole number within limits.
    Count(u32, u32),
    /// `true` or `false`.
    Flag,
    /// A text.
    Text,
    /// A list of texts, or one of them.
    Texts,
    /// One of several words.
    Word(Vec<&'static str>),
    /// Something that is described elsewhere, such as a part of a policy.
    Elsewhere,
    /// Something that stands in several places of a file and has this name.
    Named(&'static str),
}

impl Kind {
    pub(crate) fn schema(&self) -> Value {
        let duration = json!({"anyOf": [{"type": "string", "pattern": PATTERN}, {"const": 0}]});
        let text = json!({"type": ["string", "number", "boolean"]});
        match self {
            Self::Duration => duration,
            Self::DurationOrOff => json!({"anyOf": [duration, {"enum": ["off", false]}]}),
            Self::Share(most) => json!({"anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? *%$"},
                {"type": "number", "minimum": 0, "maximum": most},
            ]}),
            Self::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
            Self::Count(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Text => text,
            Self::Texts => json!({"anyOf": [text, {"type": "array", "items": text}]}),
            Self::Word(words) => json!({"enum": words}),
            Self::Elsewhere => json!({}),
            Self::Named(name) => json!({"$ref": format!("#/$defs/{name}")}),
        }
    }

    /// What may be written, in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Duration => "a duration".to_owned(),
            Self::DurationOrOff => "a duration, or `off`".to_owned(),
            Self::Share(most) if *most <= 1.0 => "a share, such as `20%`".to_owned(),
            Self::Share(most) => format!("a share up to {} %", most * 100.0),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Count(least, u32::MAX) => format!("a whole number from {least} on"),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Texts => "a text or a list of texts".to_owned(),
            Self::Word(words) => words
                .iter()
                .map(|word| format!("`{word}`"))
                .collect::<Vec<_>>()
                .join(", "),
            Self::Elsewhere => "see its meaning".to_owned(),
            Self::Named(name) => format!("a [{name}](#{name})"),
        }
    }
}
