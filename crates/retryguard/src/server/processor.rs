//! How busy the processor is.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use retryguard_core::Ratio;

use super::shared::Shared;
use crate::clock;

/// How often it is looked at. The shedding level moves by one rank a look, so this is also how fast it reacts.
const LOOK: Duration = Duration::from_millis(250);

/// Looks at the processor for as long as the shedder lives. Without a runtime, or on a system that does not
/// tell, there is nothing to look at, and the other signals remain.
pub(super) fn watch(shared: &Arc<Shared>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    let weak = Arc::downgrade(shared);
    runtime.spawn(look(weak));
}

async fn look(shared: Weak<Shared>) {
    let Some(mut before) = read().await else {
        tracing::warn!(target: "retryguard", "the processor's load cannot be read on this system; not shedding by it");
        return;
    };
    loop {
        clock::sleep(LOOK).await;
        let (Some(shared), Some(after)) = (shared.upgrade(), read().await) else {
            return;
        };
        shared.on_processor(after.used_since(before));
        before = after;
    }
}

/// Ticks of all processors since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn used_since(self, before: Self) -> Ratio {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        Ratio::of_counts(all.saturating_sub(idle), all)
    }
}

async fn read() -> Option<Ticks> {
    // The file is in memory; a blocking read takes microseconds, less than handing it to another thread.
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The first line: `cpu user nice system idle iowait irq softirq steal …`.
fn parse(stat: &str) -> Option<Ticks> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .take(8)
        .collect();
    let idle = fields.get(3)? + fields.get(4).copied().unwrap_or(0);
    Some(Ticks {
        idle,
        all: fields.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_from_two_looks() {
        let before = parse("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let after = parse("cpu  180 0 110 705 105 0 0 0 0 0\n").unwrap();
        assert_eq!(before, Ticks { idle: 800, all: 1000 });
        assert_eq!(after.used_since(before), Ratio::percent(90));
    }

    #[test]
    fn another_format_is_none_and_no_panic() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("cpu x y"), None);
        assert_eq!(parse("intr 1 2 3"), None);
    }
}
