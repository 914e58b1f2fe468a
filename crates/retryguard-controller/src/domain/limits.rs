//! How long things hold, and how often they may change.

use std::time::Duration;

/// The limits of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the last decision holds without fresh data, at most: the user's configuration is back by then.
    pub hold: Duration,
    /// Data older than this is no data.
    pub stale_after: Duration,
    /// How often the data plane is asked what it holds.
    pub resync: Duration,
    /// How long one question to a source or one change may take.
    pub timeout: Duration,
    /// The most changes of one target in any minute.
    pub changes_per_minute: u32,
    /// The most changes of all targets together in any minute.
    pub changes_per_minute_in_all: u32,
}

impl Limits {
    /// After how long without fresh data the user's configuration is restored. That takes time too: a change may be under way
    /// that must end first, and the data plane has to answer. So it begins before `hold` is over: by the time that one change may
    /// take, and never by more than a quarter.
    #[must_use]
    pub fn restore_after(&self) -> Duration {
        self.hold - self.timeout.min(self.hold / 4)
    }
}

impl Default for Limits {
    /// docs/controller.md gives the reason of each.
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(60),
            stale_after: Duration::from_secs(30),
            resync: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            changes_per_minute: 12,
            changes_per_minute_in_all: 600,
        }
    }
}
