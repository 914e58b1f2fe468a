//! What [`Trip::Silence`](super::Trip::Silence) measures: runs of failures, and how often attempts usually end.

use std::time::Duration;

use super::End;
use crate::time::Instant;

/// Of how many attempts the share of failures and the usual gap between attempts are averaged.
const AVERAGED: f64 = 1.0 / 64.0;
/// What a timeout and a rejection count for in a run of failures: a target that is slow or overloaded lets many calls
/// fail in a row.
const TIMEOUT: f64 = 0.5;
const REJECTION: f64 = 0.25;
/// From this time between attempts on, in nanoseconds, a timeout counts as much as other failures: those of a client that
/// makes few calls are so far apart that a queue that they all meet has lasted.
const FEW: f64 = 0.5e9;
/// How much rarer probes may be after timeouts.
const RARELY: u64 = 10;
/// An outage that is over after so many probes was none.
const FALSE_ALARM: u32 = 3;
/// How many of the usual gaps between attempts lie between two probes.
const PROBE_EVERY: f64 = 4.0;
/// One run of failures in so many attempts, as a logarithm, may be taken for an outage: e^9.2 is ten thousand.
const LUCK: f64 = 9.2;

/// Runs of failures, and the usual time between attempts.
#[derive(Debug, Clone)]
pub(super) struct Silence {
    /// The share of failures before the present run of them.
    failing: f64,
    /// The failures of the present run, a timeout for less than others.
    run: f64,
    /// Whether the last failure was a timeout.
    timed_out: bool,
    /// The usual time between the ends of attempts, in nanoseconds.
    gap: f64,
    last_end: Instant,
}

impl Silence {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            failing: 0.0,
            run: 0.0,
            timed_out: false,
            gap: 0.0,
            last_end: now,
        }
    }

    #[inline]
    pub(super) fn note_end(&mut self, end: End) {
        self.timed_out = end == End::TimedOut;
    }

    /// Whether the last attempt that ended was not answered in time.
    pub(super) const fn after_timeout(&self) -> bool {
        self.timed_out
    }

    /// A run of so many failures is over, and belongs to the usual share of them now.
    #[inline]
    pub(super) fn on_success(&mut self, failures: u32, now: Instant) {
        self.note_gap(now);
        let run = f64::from(failures);
        let weight = ((run + 1.0) * 4.0 * AVERAGED).min(1.0);
        self.failing += (run / (run + 1.0) - self.failing) * weight;
        self.run = 0.0;
    }

    /// Whether the run of failures, with this one, is an outage. `least` failures are needed in any case.
    pub(super) fn on_failure(&mut self, end: End, least: u32, now: Instant) -> bool {
        // A retry that follows at once is no evidence about the usual time between attempts.
        if now.nanos_since(self.last_end) as f64 >= self.gap {
            self.note_gap(now);
        } else {
            self.last_end = now;
        }
        self.run += match end {
            End::TimedOut if self.gap < FEW => TIMEOUT,
            End::Rejected => REJECTION,
            End::TimedOut | End::Failed | End::Healthy => 1.0,
        };
        let needed = LUCK / -(self.failing.clamp(0.01, 0.97)).ln();
        self.run >= needed.max(f64::from(least))
    }

    /// The breaker closes after so many openings.
    pub(super) fn on_close(&mut self, openings: u32) {
        if openings <= FALSE_ALARM {
            // Hardly an outage: runs of failures are more common here than was thought.
            self.failing += (0.7 - self.failing).max(0.0) * 0.5;
        }
    }

    pub(super) fn end_run(&mut self) {
        self.run = 0.0;
    }

    /// The time until the next probe: a few usual gaps between attempts, between `least` and `most` nanoseconds.
    pub(super) fn open_time(&self, least: u64, most: u64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from a double saturates"
        )]
        let usual = (PROBE_EVERY * self.gap) as u64;
        // A timeout may mean a queue of work that no caller waits for any more: it is emptied only if little is added.
        // Other failures cost the target next to nothing.
        let most = if self.timed_out {
            most.saturating_mul(RARELY)
        } else {
            most
        };
        Duration::from_nanos(usual.clamp(least, most))
    }

    #[inline]
    fn note_gap(&mut self, now: Instant) {
        let gap = now.nanos_since(self.last_end) as f64;
        self.last_end = now;
        self.gap += (gap - self.gap) * if self.gap == 0.0 { 1.0 } else { 4.0 * AVERAGED };
    }
}
