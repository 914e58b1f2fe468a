//! Whether a target serves more if fewer attempts are under way.
//!
//! The load itself makes some targets fail: errors grow with utilisation, a rejection costs work, requests that are given
//! up stay in a queue. Latency and failure rate cannot tell this from random failures. An experiment can:
//!
//! 1. The wall clock is cut into cycles of four slots, the same for all clients. In the second slot fewer attempts may be
//!    under way, or more, than in the first and the third. The fourth waits for the last answers.
//! 2. Attempts and successes are counted for the slot in which the attempt *started*. The first part of each slot is left
//!    out, because queues remember the slot before.
//! 3. The lower level stays if it serves as many calls as the higher one, and clearly a larger share of the attempts
//!    succeeds. Random failures fail the same share at any level. The higher level stays if it serves more calls.
//! 4. An experiment that finds nothing makes the next ones rarer. As soon as few attempts fail the level rises without
//!    one, until it limits nothing.

use crate::{pace::Pace, time::nanos};

use std::time::Duration;

/// An attempt that has ended, as the experiment sees it. Times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) success: bool,
    pub(super) started: u64,
    pub(super) now: u64,
}

/// What the client does, apart from the experiment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traffic {
    /// The share of recent attempts that failed.
    pub(super) failing: f64,
    /// Successes since an attempt last failed.
    pub(super) in_a_row: u8,
    /// Whether it is clear that retries help.
    pub(super) retries_help: bool,
    /// Attempts that were under way lately.
    pub(super) used: f64,
    /// The usual time between the starts of two attempts, in nanoseconds.
    pub(super) gap: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Experiment {
    /// Attempts that may be under way. Infinite where fewer would serve no more.
    level: f64,
    /// What the second slot of the cycle compares with it.
    other: f64,
    test: Option<Test>,
    /// The next experiment goes up, if there is a level to raise.
    up_next: bool,
    /// Cycles without an experiment: those that are left, and those after the next that finds nothing.
    pause: u8,
    next_pause: u8,
    /// Attempts under way when the cycle began.
    used: f64,
    /// The length of a slot in nanoseconds, and the number of the one that runs.
    slot: u64,
    index: u64,
    usual: Counts,
    changed: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Down,
    Up,
}

/// Attempts that started in slots of one level, and their successes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    ended: u32,
    succeeded: u32,
}

/// An experiment goes down from this share of failures on, and from this one where it is clear that retries help: such failures are
/// random more often than not, and an experiment costs calls.
pub(super) const MANY: f64 = 0.3;
const MANY_HELPED: f64 = 0.5;
/// A target has recovered after so many successes in a row, and half as many as a slot has attempts.
const RECOVERED: f64 = 8.0;
/// Below this share of failures the level rises without an experiment.
const FEW: f64 = 0.03;
/// The lower of two levels that are compared, as a share of the higher one.
const STEP: f64 = 0.7;
/// By so much the share of successes must be larger at the lower level, and by so many standard errors.
const LARGER: f64 = 1.15;
const CLEAR: f64 = 2.0;
/// So many times as many calls the higher level must serve.
const MORE: f64 = 1.05;
/// Fewer attempts say nothing: in the two slots of the usual level, and in the slot of the other one.
const ENOUGH: u32 = 16;
const ENOUGH_CHANGED: u32 = 4;
/// A slot lasts so many times the latency, so that its effect shows within it, and has room for so many attempts.
const LATENCIES: f64 = 6.0;
const ATTEMPTS: f64 = 16.0;
/// The shortest and the longest slot. Lengths are powers of two of the shortest, so that clients agree.
const SHORTEST: u64 = nanos(Duration::from_millis(250));
const LONGEST: u64 = nanos(Duration::from_secs(4));
/// Slots of a cycle, and the part of a slot whose attempts do not count, as a divisor.
const SLOTS: u64 = 4;
const SETTLING: u64 = 4;
/// The most cycles between two experiments.
const LONGEST_PAUSE: u8 = 16;

impl Experiment {
    pub(super) fn new() -> Self {
        Self {
            level: f64::INFINITY,
            other: f64::INFINITY,
            test: None,
            up_next: false,
            pause: 0,
            next_pause: 1,
            used: 0.0,
            slot: SHORTEST,
            index: 0,
            usual: Counts::default(),
            changed: Counts::default(),
        }
    }

    /// Attempts that may be under way now.
    #[inline]
    pub(super) fn level(&self) -> f64 {
        if self.test.is_some() && self.index % SLOTS == 1 {
            self.other
        } else {
            self.level
        }
    }

    /// Whether nothing is limited, and so little fails that nothing need be tried.
    pub(super) fn is_over(&self, failing: f64) -> bool {
        self.test.is_none() && self.level == f64::INFINITY && failing < FEW
    }

    pub(super) fn on_end(&mut self, ended: Ended, traffic: &Traffic, pace: &Pace) {
        self.advance(ended.now, traffic, pace);
        if self.test == Some(Test::Down) && self.has_recovered(traffic) {
            self.test = None;
        }
        if self.test.is_none() || ended.started % self.slot < self.slot / SETTLING {
            return;
        }
        let first = self.index - self.index % SLOTS;
        let counts = match (ended.started / self.slot).wrapping_sub(first) {
            0 | 2 => &mut self.usual,
            1 => &mut self.changed,
            _ => return,
        };
        counts.ended = counts.ended.saturating_add(1);
        counts.succeeded = counts.succeeded.saturating_add(u32::from(ended.success));
    }

    fn advance(&mut self, now: u64, traffic: &Traffic, pace: &Pace) {
        let index = now / self.slot;
        let (from, to) = (self.index / SLOTS, index / SLOTS);
        self.index = index;
        if from == to {
            return;
        }
        if let Some(test) = self.test.take()
            && to == from + 1
        {
            self.decide(test);
        }
        (self.usual, self.changed) = (Counts::default(), Counts::default());
        let slot = slot_for(traffic, pace);
        if slot != self.slot {
            self.slot = slot;
            self.index = now / slot;
        } else if index.is_multiple_of(SLOTS) {
            self.begin(traffic);
        }
    }

    /// A cycle begins: chooses what it compares.
    fn begin(&mut self, traffic: &Traffic) {
        let too_rare = ATTEMPTS * traffic.gap > self.slot as f64;
        if too_rare {
            self.level = f64::INFINITY;
            return;
        }
        self.used = traffic.used;
        if traffic.failing < FEW {
            (self.pause, self.next_pause) = (0, 1);
            self.level = self.unless_free(self.higher());
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        if self.up_next && self.level < f64::INFINITY {
            self.up_next = false;
            self.other = self.higher();
            self.test = Some(Test::Up);
            return;
        }
        self.up_next = true;
        let from = self.level.min(traffic.used);
        let many = if traffic.retries_help { MANY_HELPED } else { MANY };
        if traffic.failing > many && from > 1.0 && !self.has_recovered(traffic) {
            self.other = (STEP * from).max(1.0);
            self.test = Some(Test::Down);
        }
    }

    /// Whether so many attempts in a row have succeeded that the share of failures must be out of date.
    fn has_recovered(&self, traffic: &Traffic) -> bool {
        let expected = self.slot as f64 / traffic.gap.max(1.0);
        f64::from(traffic.in_a_row) >= RECOVERED.max(0.5 * expected)
    }

    fn decide(&mut self, test: Test) {
        let (usual, changed) = (&self.usual, &self.changed);
        let enough = usual.ended >= ENOUGH && changed.ended >= ENOUGH_CHANGED;
        // The usual level has two slots of the cycle.
        let served = f64::from(usual.succeeded) / 2.0;
        let changed_served = f64::from(changed.succeeded);
        match test {
            Test::Down if enough && changed_served >= served && changed.is_clearly_better(usual) => {
                self.level = self.other;
                self.next_pause = 1;
            }
            Test::Down => {
                self.pause = self.next_pause;
                self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
            }
            Test::Up if enough && changed_served > MORE * served => {
                self.level = self.unless_free(self.other);
            }
            Test::Up => {}
        }
    }

    fn higher(&self) -> f64 {
        (self.level / STEP).max(self.level + 1.0)
    }

    /// A level that is far above what the client uses limits nothing.
    fn unless_free(&self, level: f64) -> f64 {
        if level > 2.0 * self.used + 2.0 {
            f64::INFINITY
        } else {
            level
        }
    }
}

impl Counts {
    /// The share that succeeded. Never none and never all: half a success and half a failure more than were seen.
    fn share(&self) -> f64 {
        (f64::from(self.succeeded) + 0.5) / (f64::from(self.ended) + 1.0)
    }

    fn is_clearly_better(&self, other: &Self) -> bool {
        let pooled = Self {
            ended: self.ended.saturating_add(other.ended),
            succeeded: self.succeeded.saturating_add(other.succeeded),
        };
        let share = pooled.share();
        let variance = share * (1.0 - share) * (1.0 / f64::from(self.ended) + 1.0 / f64::from(other.ended));
        let more = self.share() - other.share();
        self.share() > LARGER * other.share() && more > CLEAR * variance.sqrt()
    }
}

fn slot_for(traffic: &Traffic, pace: &Pace) -> u64 {
    let wanted = (LATENCIES * pace.recent()).max(ATTEMPTS * traffic.gap);
    let mut slot = SHORTEST;
    while (slot as f64) < wanted && slot < LONGEST {
        slot *= 2;
    }
    slot
}

#[cfg(test)]
mod tests;
