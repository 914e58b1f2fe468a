//! When a breaker opens, and for how long.

use std::time::Duration;

use crate::ratio::Ratio;

/// When the breaker opens, for how long, and what closes it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What opens it.
    pub trip: Trip,
    /// How long it stays open the first time.
    pub open_for: Duration,
    /// Each time a probe fails, the next open time is twice the last, up to this. Equal to `open_for` (or
    /// shorter) for a fixed open time.
    pub open_for_at_most: Duration,
    /// How many probes may be under way at once while half-open.
    pub probes: u32,
    /// How many probes must succeed before it closes; no more than this are let through in one half-open
    /// phase.
    pub close_after: u32,
    /// What becomes of calls while it is not closed.
    pub when_down: WhenDown,
}

/// What becomes of calls to a target that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenDown {
    /// They fail at once: for callers with a fallback, or with few threads.
    Fail,
    /// They wait for the recovery, as long as their deadline allows; at most so many at once.
    Wait {
        /// The most calls that wait.
        most: u32,
    },
}

/// What opens a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// This many failures in a row.
    Consecutive(u32),
    /// This many failures and no success between them: the target is down. More are needed where random failures
    /// are common, so that a random run of failures is not taken for an outage. While it is open, probes come as often as a
    /// small share of the usual attempts did.
    Silence(u32),
    /// This many failures in a window, whatever succeeded beside them. Trips on volume alone, so a busy
    /// target with a small error rate opens it too.
    Count {
        /// How many.
        failures: u32,
        /// In what time.
        window: Duration,
    },
    /// A share of failures in a window, once there are enough calls to speak of a share.
    Rate {
        /// The share at which it opens.
        ratio: Ratio,
        /// The calls that must have ended in the window.
        minimum_calls: u32,
        /// The window.
        window: Duration,
        /// Opens for slow attempts as well, `None` for never: an answer that comes too late is of no use either.
        slow: Option<Slow>,
    },
}

/// Which attempts are slow, and how many of them are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// An attempt that took longer than this is slow, whether it succeeded or not.
    pub above: Duration,
    /// The share of slow attempts at which the breaker opens, among as many calls as the share of failures needs.
    pub ratio: Ratio,
}

impl Default for Settings {
    /// Opens at four of five of at least 20 calls failing within ten seconds, for five seconds doubling to
    /// ten; one probe at a time, two successes to close. A breaker is for a target that is down: one that
    /// still answers every third call is better left to budget and guard. In the tournament's worlds a breaker
    /// that opens at half, for up to a minute, refuses what 60 % random errors would have let through, and
    /// comes back late from every outage.
    fn default() -> Self {
        Self {
            trip: Trip::Rate {
                ratio: Ratio::percent(80),
                minimum_calls: 20,
                window: Duration::from_secs(10),
                slow: None,
            },
            open_for: Duration::from_secs(5),
            open_for_at_most: Duration::from_secs(10),
            probes: 1,
            close_after: 2,
            when_down: WhenDown::Fail,
        }
    }
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Settings {
    /// Which attempts are slow, where that matters.
    pub(super) const fn slow(&self) -> Option<Slow> {
        match self.trip {
            Trip::Rate { slow, .. } => slow,
            Trip::Consecutive(_) | Trip::Silence(_) | Trip::Count { .. } => None,
        }
    }

    /// The window in which a breaker counts, if it does.
    pub(super) const fn window(&self) -> Option<Duration> {
        match self.trip {
            Trip::Consecutive(_) | Trip::Silence(_) => None,
            Trip::Count { window, .. } | Trip::Rate { window, .. } => Some(window),
        }
    }
}
