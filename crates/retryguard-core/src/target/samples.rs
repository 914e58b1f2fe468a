//! What a guard that decides by samples is fed with.

use std::time::Duration;

use super::{Change, Shared, Target, permit::AttemptKind};
use crate::{
    guard::{self, Guard, Sample, Signal},
    latency::Latencies,
    time::Instant,
};

/// The counts of the interval that runs. There is none where the guard measures instead.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    sample: Sample,
    ends: Instant,
    delays: Option<Latencies>,
}

impl Samples {
    /// The samples that a guard needs, going on from those that there are.
    pub(super) fn replaced(
        before: Option<Box<Self>>,
        guard: Option<&guard::Settings>,
        now: Instant,
    ) -> Option<Box<Self>> {
        let guard = guard.filter(|guard| !matches!(guard.mode, guard::Mode::Response(_)))?;
        let mut samples = before.unwrap_or_else(|| {
            Box::new(Self {
                sample: Sample::default(),
                ends: Instant::NEVER,
                delays: None,
            })
        });
        let delays = samples.delays.take();
        samples.delays = (guard.signal == Signal::Delay).then(|| delays.unwrap_or_default());
        // A sample that has begun is not put off, or frequent swaps would starve the guard.
        samples.ends = samples.ends.min(now.after(guard.interval));
        Some(samples)
    }

    #[inline]
    pub(super) fn on_retry(&mut self) {
        self.sample.retries += 1;
    }

    #[inline]
    pub(super) fn on_end(&mut self, kind: AttemptKind, success: bool, rejected: bool, latency: u64) {
        if kind == AttemptKind::First {
            self.sample.calls += 1;
            self.sample.rejected += u64::from(rejected);
            if let Some(delays) = &mut self.delays {
                delays.add(Duration::from_nanos(latency));
            }
        } else {
            self.sample.retries_succeeded += u64::from(success);
        }
    }

    /// Until when successes of first attempts may be counted later, by [`Samples::on_successes`]; `None` where their delays matter.
    pub(super) const fn rests_until(&self) -> Option<Instant> {
        if self.delays.is_some() {
            None
        } else {
            Some(self.ends)
        }
    }

    /// So many first attempts have succeeded.
    pub(super) fn on_successes(&mut self, ended: u32) {
        self.sample.calls += u64::from(ended);
    }

    /// Feeds the guard once its interval is over.
    #[inline]
    pub(super) fn feed(&mut self, guard: &mut Guard<Shared>, now: Instant, note: impl FnMut(Change)) {
        if now >= self.ends {
            self.feed_ended(guard, now, note);
        }
    }

    #[cold]
    fn feed_ended(&mut self, guard: &mut Guard<Shared>, now: Instant, mut note: impl FnMut(Change)) {
        if let Some(delays) = &mut self.delays {
            self.sample.delay = delays.quantile(Target::DELAY_QUANTILE);
            delays.clear();
        }
        let interval = guard.settings().interval.max(Duration::from_millis(1));
        // Intervals in which nothing happened at all are samples too, but no more of them than can matter.
        for _ in 0..=64 {
            let sample = std::mem::take(&mut self.sample);
            let decided = guard.feed(&sample, self.ends);
            self.ends = self.ends.after(interval);
            if let Some(decision) = decided {
                note(Change::Guard(decision));
            }
            if now < self.ends {
                return;
            }
        }
        self.ends = now.after(interval);
    }
}
