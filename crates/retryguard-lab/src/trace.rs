//! W3C trace context: read, carried through the work of a request, and sent with every attempt.

mod otlp;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{chance::SharedRandom, clock};

pub use otlp::{MOST_WAITING, Otlp};

/// The header.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static CURRENT: Span;
}

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: u128,
    /// Its own id.
    pub id: u64,
    /// The id of its parent; zero for a root span.
    pub parent: u64,
}

/// A span that has ended, as it is exported.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The place.
    pub span: Span,
    /// The service that it belongs to.
    pub service: &'static str,
    /// What was done.
    pub name: String,
    /// Whether this is the side that asked.
    pub client: bool,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// How long it took.
    pub took: Duration,
    /// The answer's status; zero for none.
    pub status: u16,
    /// The number of the attempt, on the side that asks.
    pub attempt: u8,
}

/// Where ended spans go.
pub trait Sink: Send + Sync + 'static {
    /// Takes one.
    fn take(&self, ended: Ended);
}

static SINK: OnceLock<Arc<dyn Sink>> = OnceLock::new();

/// Sends all ended spans of this process somewhere. Only the first call counts.
pub fn export_to(sink: Arc<dyn Sink>) {
    // A second exporter would see half of a trace.
    let _ = SINK.set(sink);
}

impl Span {
    /// The span of a request that arrives: a child of the caller's, or the root of a new trace.
    #[must_use]
    pub fn arriving(headers: &HeaderMap) -> Self {
        let parent = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok())
            .and_then(Self::of);
        parent.map_or_else(Self::root, Self::child)
    }

    /// The span that a `traceparent` names; none where it is broken.
    #[must_use]
    pub fn of(traceparent: &str) -> Option<Self> {
        parse(traceparent)
    }

    /// The root of a new trace.
    #[must_use]
    pub fn root() -> Self {
        let trace = u128::from(bits()) << 64 | u128::from(bits());
        Self {
            trace,
            id: bits(),
            parent: 0,
        }
    }

    /// A child of this one.
    #[must_use]
    pub fn child(self) -> Self {
        Self {
            trace: self.trace,
            id: bits(),
            parent: self.id,
        }
    }

    /// The span that the present task works in; a new root outside of any.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(|span| *span).unwrap_or_else(|_| Self::root())
    }

    /// Runs a future in this span.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// Writes it where the next hop reads it.
    pub fn write(self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.traceparent()) {
            headers.insert(TRACEPARENT, value);
        }
    }

    /// The value of the header.
    #[must_use]
    pub fn traceparent(self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace, self.id)
    }

    /// The trace's id as logs show it.
    #[must_use]
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }
}

/// Whether spans are exported.
#[must_use]
pub fn is_exported() -> bool {
    SINK.get().is_some()
}

/// Hands an ended span to the exporter, if there is one.
pub fn end(ended: impl FnOnce() -> Ended) {
    if let Some(sink) = SINK.get() {
        sink.take(ended());
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>`; anything else is as if it were not there, as the standard wants it.
fn parse(text: &str) -> Option<Span> {
    let mut parts = text.trim().split('-');
    let (version, trace, id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let known = version == "00" && parts.next().is_none() && flags.len() == 2;
    if !known || trace.len() != 32 || id.len() != 16 || !is_lower_hex(trace) || !is_lower_hex(id) {
        return None;
    }
    let span = Span {
        trace: u128::from_str_radix(trace, 16).ok()?,
        id: u64::from_str_radix(id, 16).ok()?,
        parent: 0,
    };
    (span.trace != 0 && span.id != 0).then_some(span)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Never zero, which means none.
fn bits() -> u64 {
    static DICE: OnceLock<SharedRandom> = OnceLock::new();
    DICE.get_or_init(|| SharedRandom::new(clock::wall_nanos(), "spans"))
        .bits()
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_by_the_next_hop() {
        let span = Span::root();
        let mut headers = HeaderMap::new();
        span.write(&mut headers);
        let next = Span::arriving(&headers);
        assert_eq!((next.trace, next.parent), (span.trace, span.id));
        assert_ne!(next.id, span.id);
    }

    #[test]
    fn a_broken_header_begins_a_new_trace() {
        for text in [
            "",
            "00-0-0-01",
            "00-00000000000000000000000000000000-0000000000000001-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").is_some());
    }
}
