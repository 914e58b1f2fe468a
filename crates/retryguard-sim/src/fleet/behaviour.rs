//! What a periodic client does, as data.

use std::time::Duration;

use retryguard_core::{Backoff, Instant, Ratio};

/// A number of clients that behave alike, and the target's bad times.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// How many clients.
    pub clients: u64,
    /// What each of them does.
    pub behaviour: Behaviour,
    /// When and how often requests fail.
    pub failures: Vec<Failures>,
    /// How long the fleet is watched.
    pub duration: Duration,
    /// The width of a bin of the [`Series`](super::Series).
    pub step: Duration,
}

/// What a client does.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// The time between regular requests.
    pub period: Duration,
    /// What it does when the run begins.
    pub start: Start,
    /// When it sends its next regular request.
    pub pace: Pace,
    /// How it retries, if it does. It goes on until a request succeeds or the back-off's schedule ends.
    pub retry: Option<Backoff>,
}

/// What a client does when the run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Sends at once: every client was started at the same moment, by an update or after a power cut.
    AtOnce,
    /// Waits as its pace says, then sends.
    AfterAWait,
    /// Has been running for ever: its first request of the run comes when a stationary process would bring it.
    Settled,
}

/// When the next regular request follows the one before, retries included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One period later.
    Fixed,
    /// A period times a uniform factor later. A fleet that started together oscillates for some periods.
    Jittered {
        /// The lower bound of the factor.
        low: Ratio,
        /// The upper bound of the factor.
        high: Ratio,
    },
    /// At a uniform moment of the next slot of one period: truncate, then add the draw. This is
    /// [`Schedule`](retryguard_core::schedule::Schedule).
    Slots,
    /// One to two periods later, truncated to the slot afterwards: the same two steps in the wrong order, which
    /// put the whole fleet on the slot's edge.
    SlotsTruncatedLate,
}

/// A time during which requests fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failures {
    /// The beginning.
    pub from: Instant,
    /// The end.
    pub until: Instant,
    /// The share of requests that fail.
    pub share: f64,
}

impl Fleet {
    /// The share of requests that fail at a moment. Where several bad times overlap, a request must survive each.
    #[must_use]
    pub fn failure_at(&self, now: Instant) -> f64 {
        let survives: f64 = self
            .failures
            .iter()
            .filter(|bad| bad.from <= now && now < bad.until)
            .map(|bad| 1.0 - bad.share)
            .product();
        1.0 - survives
    }

    /// Requests a second of a fleet that is spread evenly and never retries: what every rate is measured against.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than a double")]
    pub fn even_rate(&self) -> f64 {
        self.clients as f64 / self.behaviour.period.as_secs_f64()
    }
}
