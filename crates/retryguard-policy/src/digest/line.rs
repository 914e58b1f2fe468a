//! The text that is hashed: one line for each value.

use std::{
    fmt::{Display, Write},
    time::Duration,
};

use retryguard_core::Ratio;

#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    pub(super) fn add(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key}={value}");
    }

    pub(super) fn span(&mut self, key: &str, span: Duration) {
        self.add(key, span.as_nanos());
    }

    pub(super) fn maybe_span(&mut self, key: &str, span: Option<Duration>) {
        match span {
            Some(span) => self.span(key, span),
            None => self.add(key, "off"),
        }
    }

    pub(super) fn ratio(&mut self, key: &str, ratio: Ratio) {
        self.add(key, ratio.parts());
    }

    /// Each entry quoted, so that two lists are the same text only if they are the same list.
    pub(super) fn list<T: AsRef<str>>(&mut self, key: &str, entries: &[T]) {
        self.add(key, entries.len());
        for entry in entries {
            self.add("-", format_args!("{:?}", entry.as_ref()));
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}
