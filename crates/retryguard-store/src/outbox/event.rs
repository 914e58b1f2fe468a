use std::time::SystemTime;

use bytes::Bytes;

use crate::StoreError;

/// An event, as the application writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about; the publisher decides by it where it goes.
    pub topic: String,
    /// Events with the same key are published in order, whatever their topic; those without one in any order.
    /// Put the topic into the key to have an order for each topic alone.
    pub key: Option<String>,
    /// What is published.
    pub payload: Bytes,
    /// What travels beside the payload, such as its content type or a trace.
    pub headers: Vec<(String, String)>,
}

impl Event {
    /// The longest topic, in bytes.
    pub const LONGEST_TOPIC: usize = 255;
    /// The longest key, in bytes.
    pub const LONGEST_KEY: usize = 255;
    /// The largest payload, in bytes: what the smallest of the well-known queues takes. Put what is larger
    /// elsewhere and its address into the event.
    pub const LARGEST_PAYLOAD: usize = 256 * 1024;
    /// The most bytes of all names and values of headers together.
    pub const LARGEST_HEADERS: usize = 8 * 1024;

    /// An event without key and headers.
    #[must_use]
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            key: None,
            payload: payload.into(),
            headers: Vec::new(),
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Whether every part keeps its limit.
    ///
    /// # Errors
    /// Names the part that does not, with its size and its limit.
    pub fn check(&self) -> Result<(), StoreError> {
        let key = self.key.as_deref().unwrap_or_default();
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        within("topic of an event", self.topic.len(), Self::LONGEST_TOPIC)?;
        within("key of an event", key.len(), Self::LONGEST_KEY)?;
        within("payload of an event", self.payload.len(), Self::LARGEST_PAYLOAD)?;
        within("headers of an event", headers.sum(), Self::LARGEST_HEADERS)?;
        if self.topic.is_empty() {
            return Err(unusable("topic of an event", "it is empty"));
        }
        // PostgreSQL cannot keep it in a text, and an event must not depend on where it is kept.
        if self.topic.contains('\0') || key.contains('\0') {
            return Err(unusable(
                "topic or key of an event",
                "it contains a NUL character",
            ));
        }
        Ok(())
    }

    /// The lane of its key; `None` where it has none and gets one of its own.
    pub(super) fn lane(&self) -> Option<String> {
        self.key.as_ref().map(|key| format!("k{key}"))
    }

    /// The headers as they are kept in a database.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn headers_as_json(&self) -> String {
        // Pairs of strings always have a JSON form. A NUL in them is escaped there.
        serde_json::to_string(&self.headers).unwrap_or_else(|_| "[]".to_owned())
    }
}

fn within(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size <= limit {
        return Ok(());
    }
    Err(StoreError::TooLarge { what, size, limit })
}

fn unusable(what: &'static str, why: &'static str) -> StoreError {
    StoreError::Unusable { what, why }
}

/// An event on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// What a consumer tells duplicates by: the same for every delivery of the event, and unique.
    pub id: String,
    /// Its number in its outbox: grows within a key.
    pub number: i64,
    /// As written.
    pub topic: String,
    /// As written.
    pub key: Option<String>,
    /// As written.
    pub payload: Bytes,
    /// As written.
    pub headers: Vec<(String, String)>,
    /// When it was written, by the database's clock.
    pub written: SystemTime,
    /// How many tries have failed before this one.
    pub failed: u32,
    /// The wait before this try; zero before the first.
    pub waited: std::time::Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_holds_and_is_exact() {
        let text = |length| "a".repeat(length);
        let event = |topic, key, payload: usize, header| {
            Event::new(text(topic), vec![0; payload])
                .key(text(key))
                .header("n", text(header))
        };
        let largest = event(
            Event::LONGEST_TOPIC,
            Event::LONGEST_KEY,
            Event::LARGEST_PAYLOAD,
            Event::LARGEST_HEADERS - 1,
        );
        largest.check().unwrap();
        for (at, large) in [
            ("topic", event(Event::LONGEST_TOPIC + 1, 1, 1, 1)),
            ("key", event(1, Event::LONGEST_KEY + 1, 1, 1)),
            ("payload", event(1, 1, Event::LARGEST_PAYLOAD + 1, 1)),
            ("headers", event(1, 1, 1, Event::LARGEST_HEADERS)),
        ] {
            let message = large.check().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("the {at} of an event has")),
                "{message}"
            );
        }
    }

    #[test]
    fn what_no_database_can_keep_is_refused() {
        let message = |event: Event| event.check().unwrap_err().to_string();
        assert!(message(Event::new("", "")).contains("it is empty"));
        assert!(message(Event::new("a\0", "")).contains("NUL"));
        assert!(message(Event::new("a", "").key("\0")).contains("NUL"));
    }
}
