//! The key `limits`.

use std::time::Duration;

use crate::domain::limits::Limits;
use retryguard_policy::reading::{Block, Mistakes};

pub(super) fn read(block: &mut Block<'_>, mistakes: &mut Mistakes) -> Limits {
    let default = Limits::default();
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
    Limits {
        hold,
        stale_after,
        resync,
        timeout,
        changes_per_minute,
        changes_per_minute_in_all,
    }
}
