//! How long things hold, and how often they may change.

use std::time::Duration;

use retryguard_policy::reading::{Block, Mistakes};

/// The limits of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the last decision holds without fresh data; the user's configuration is restored after it.
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

impl Limits {
    pub(super) fn read(block: &mut Block<'_>, mistakes: &mut Mistakes) -> Self {
        let default = Self::default();
        let Some(mut block) = block.block("limits", mistakes) else {
            return default;
        };
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let mut span = |key, most, default| {
            let found = block.duration(key, second..=most, mistakes);
            found.unwrap_or(default)
        };
        let hold = span("hold", 24 * hour, default.hold);
        let stale_after = span("staleAfter", hour, default.stale_after);
        let resync = span("resync", hour, default.resync);
        let timeout = span("timeout", Duration::from_secs(60), default.timeout);
        let changes_per_minute = block
            .count("changesPerMinute", 1..=600, mistakes)
            .unwrap_or(default.changes_per_minute);
        let changes_per_minute_in_all = block
            .count("changesPerMinuteInAll", 1..=100_000, mistakes)
            .unwrap_or(default.changes_per_minute_in_all);
        block.close(mistakes);
        Self {
            hold,
            stale_after,
            resync,
            timeout,
            changes_per_minute,
            changes_per_minute_in_all,
        }
    }
}
