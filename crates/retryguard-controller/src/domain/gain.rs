//! Whether retries help: measured by what a service's calls come to with and without them.
//!
//! A share of rejections cannot tell random failures from an overload: both answer 503. What tells them apart is the **gain**:
//! the number of additional successful calls per additional attempt. It is close to one where failures are random and there
//! is capacity to spare, about zero where each retry that succeeds displaces another request, and negative where attempts
//! cost capacity that others need.
//!
//! Three kinds of evidence are used, the cheapest first:
//!
//! 1. *Almost every call succeeds in the end.* A service that serves all of its calls is not overloaded, because an overloaded
//!    one serves fewer calls than it receives. Retries stay on, and nothing has to be switched for it.
//! 2. *Two arms.* A data plane's retries can be switched for the whole service, so on and off are the two arms of a
//!    measurement, for several samples each. The threshold guard acts first, because an overload does not wait: when it
//!    switches retries off, the samples before are the arm "on" and the samples after it the arm "off". Where the gain is
//!    clearly above its price, retries come back although requests fail. Where it is not, they stay off, and short tests
//!    measure again.
//! 3. *Nothing succeeds.* A service that is down has nothing to gain from tests. Its first good sample ends the outage.
//! 4. *As many succeed, however many come.* A service at its capacity has nothing to gain either, and shows it while retries are
//!    off (see `capacity`). A test that is due is put off, though never for longer than the longest time between two tests.

mod capacity;

use std::time::Duration;

pub use retryguard_core::guard::Gain;
use retryguard_core::{Instant, Ratio};

use crate::domain::counts::Counts;
use capacity::Capacity;

/// The least gain for which a retry is worth sending, where the policy has no `guard.price`.
pub const PRICE: Ratio = Ratio::percent(15);
/// A service of whose calls a smaller share succeeds is down.
const DOWN: f64 = 0.15;
/// How many standard errors make a difference clear.
pub const CLEAR: f64 = 1.5;
/// Samples after a switch that do not count: they cover both arms, and queues remember the arm before.
const SETTLE: u32 = 2;
/// Samples of one arm that are compared.
const SLOT: usize = 3;
/// The calls that each arm must hold before it means anything.
const LEAST_CALLS: f64 = 20.0;
/// Retries that are off are tested after this time; each test that finds no gain doubles it.
const TEST_AFTER: Duration = Duration::from_secs(30);
/// The longest time between two tests.
const TEST_AT_MOST: Duration = Duration::from_secs(240);
/// Fewer rejections than this share are a service that has recovered.
const RECOVERED: f64 = 0.05;
/// The good calls in a row that end an outage.
const RECOVERED_CALLS: f64 = 5.0;
/// The share of calls that succeed in the end from which on a service counts as not overloaded. An overload by 2 % is taken
/// for random failures; it loses no call by that, because its retries are served by what first attempts leave over.
const SAVED: f64 = 0.98;
/// The least gain that retries may have at best for [`SAVED`] to hold. At an overload by 2 % with five retries half of the
/// attempts are rejected, and the gain is at best 0.48.
const SAVED_GAIN: f64 = 0.5;
/// How far the success of calls may fall below what it was when retries were found to help.
const DROP: f64 = 0.1;
/// So many samples in a row below [`DROP`] begin a new measurement. The first may cover the moment of the change, so that it
/// is not counted.
const DROPPED_FOR: usize = 3;

/// What the measurement wants of the retries, over the threshold guard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// As the threshold guard decides.
    AsGuarded,
    /// On: the gain is above its price, or is being tested.
    On,
    /// Off: the gain is being measured again, or a test found none.
    Off,
    /// The service was down and has recovered: the threshold guard begins anew.
    Recovered,
}

/// The measurement for one target.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The least gain for which a retry is worth sending.
    price: f64,
    phase: Phase,
    /// The latest samples with retries on.
    on: Arm,
    /// The latest samples since retries went off.
    off: Arm,
    /// What was served since retries went off, or since the last test.
    capacity: Capacity,
    /// When two arms were compared last, or nothing was left to compare.
    judged: Instant,
    /// The samples of a test, those that cover the switch among them.
    tested: Arm,
    skip: u32,
    gain: Option<Gain>,
    wait: Duration,
    health: Health,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The threshold guard has retries on.
    Watching,
    /// Retries have just gone off: the arm "off" is counted.
    Measuring,
    /// Retries help, although requests fail.
    Productive {
        /// The success of calls when that was found.
        level: f64,
        /// Samples in a row that were far below it.
        dropped: usize,
    },
    /// Retries do not help.
    Off { test_at: Instant },
    /// Retries are on for a slot.
    Testing,
}

/// Whether the service is down, while retries are off.
#[derive(Debug, Clone, Copy, Default)]
struct Health {
    /// Hardly anything succeeded.
    down: bool,
    /// Samples since then that were neither an outage nor a recovery. One of them covers the moment of the recovery.
    mixed: u32,
    /// Calls in a row that were not rejected.
    good_calls: f64,
}

/// Samples of one arm.
#[derive(Debug, Clone, Default)]
struct Arm {
    samples: Vec<Tally>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    calls: f64,
    succeeded: f64,
    retries: f64,
    /// How many retries succeeded, where the source counts it.
    retries_succeeded: Option<f64>,
    /// The share of attempts that were rejected.
    rejected: f64,
}

impl Default for Measurement {
    fn default() -> Self {
        Self::new(PRICE)
    }
}

impl Measurement {
    /// A measurement that has seen nothing, under a guard that has retries on.
    #[must_use]
    pub fn new(price: Ratio) -> Self {
        Self {
            price: price.as_f64(),
            phase: Phase::Watching,
            on: Arm::default(),
            off: Arm::default(),
            capacity: Capacity::default(),
            judged: Instant::ZERO,
            tested: Arm::default(),
            skip: 0,
            gain: None,
            wait: TEST_AFTER,
            health: Health::default(),
        }
    }

    /// A measurement under a guard that goes on from retries that an earlier controller switched off. Of the time before it
    /// has no samples to compare with, so it leaves the decision to the guard and tests later.
    #[must_use]
    pub fn resumed(price: Ratio, now: Instant) -> Self {
        Self {
            phase: Phase::Off {
                test_at: now.after(TEST_AFTER),
            },
            judged: now,
            ..Self::new(price)
        }
    }

    /// The last measured gain.
    #[must_use]
    pub const fn gain(&self) -> Option<Gain> {
        self.gain
    }

    /// Whether retries are on because they were found to help.
    #[must_use]
    pub const fn is_productive(&self) -> bool {
        matches!(self.phase, Phase::Productive { .. })
    }

    /// Whether the arm without retries is being counted.
    #[must_use]
    pub const fn is_measuring(&self) -> bool {
        matches!(self.phase, Phase::Measuring)
    }

    /// Whether the threshold guard has the last word at present.
    #[must_use]
    pub const fn is_passive(&self) -> bool {
        matches!(self.phase, Phase::Watching | Phase::Off { .. })
    }

    /// Takes a sample in. `guard_on` says whether the threshold guard, which has seen it already, lets retries through.
    /// Counts without retries or without the calls that failed in the end measure nothing.
    pub fn observe(&mut self, counts: &Counts, guard_on: bool, now: Instant) -> Advice {
        let Some(tally) = Tally::of(counts) else {
            return Advice::AsGuarded;
        };
        if guard_on && !matches!(self.phase, Phase::Testing) {
            self.phase = Phase::Watching;
            self.wait = TEST_AFTER;
            self.on.push(tally);
            return Advice::AsGuarded;
        }
        let settled = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        match self.phase {
            Phase::Watching => {
                // This sample is the one that made the guard switch off: its calls had their retries.
                self.on.push(tally);
                if self.on.saved() {
                    self.gain = None;
                    return self.productive();
                }
                self.begin_off();
                Advice::AsGuarded
            }
            Phase::Measuring => {
                if self.health.recovered(&tally) {
                    return self.recovered();
                }
                if settled {
                    self.off.push(tally);
                    self.capacity.push(tally.calls, tally.succeeded);
                }
                if self.off.enough() {
                    return self.judge(now);
                }
                Advice::Off
            }
            Phase::Productive { level, dropped } => self.check(tally, level, dropped),
            Phase::Off { test_at } => {
                if settled {
                    self.off.push(tally);
                    self.capacity.push(tally.calls, tally.succeeded);
                }
                if self.health.recovered(&tally) {
                    return self.recovered();
                }
                // A service that answers hardly anything is not tested: there is nothing to gain.
                if now < test_at || tally.rejected <= RECOVERED || self.health.down {
                    return Advice::AsGuarded;
                }
                if self.capacity.is_reached() && now.since(self.judged) < TEST_AT_MOST {
                    self.phase = Phase::Off {
                        test_at: now.after(TEST_AFTER),
                    };
                    return Advice::AsGuarded;
                }
                self.phase = Phase::Testing;
                self.on = Arm::default();
                self.tested = Arm::default();
                self.skip = SETTLE;
                Advice::On
            }
            Phase::Testing => {
                // An outage has begun during the test.
                if tally.calls >= RECOVERED_CALLS && tally.success() < DOWN {
                    self.health.down = true;
                    return self.suspend(now);
                }
                // So may a sample that covers the first moments of an outage.
                if self.off.calls() >= LEAST_CALLS && tally.clearly_below(self.off.success() - DROP) {
                    return self.suspend(now);
                }
                // A retry that fails saves no call: no more can be gained than the share of retries that succeed.
                if tally.wastes_retries(self.price) {
                    return self.suspend(now);
                }
                if settled {
                    self.on.push(tally);
                }
                // A test that finds harm ends with the sample that shows it, also with one that covers the switch: where calls
                // without retries are among its own, they lessen retries and successes alike.
                self.tested.push(tally);
                let gain = compare(&self.tested, &self.off);
                if gain.is_some_and(|gain| clearly_below(gain, self.price)) {
                    self.gain = gain;
                    return self.suspend(now);
                }
                if self.on.enough() {
                    return self.judge(now);
                }
                Advice::On
            }
        }
    }

    /// A sample while retries are on because they help: whether they still do.
    fn check(&mut self, tally: Tally, level: f64, dropped: usize) -> Advice {
        self.on.push(tally);
        let dropped = if tally.clearly_below(level - DROP) {
            dropped + 1
        } else {
            0
        };
        if dropped < DROPPED_FOR {
            self.phase = Phase::Productive { level, dropped };
            return Advice::On;
        }
        self.on.keep_last(DROPPED_FOR - 1);
        self.begin_off();
        Advice::Off
    }

    fn begin_off(&mut self) {
        self.phase = Phase::Measuring;
        self.off = Arm::default();
        self.capacity = Capacity::default();
        self.skip = SETTLE;
        self.health = Health::default();
    }

    fn productive(&mut self) -> Advice {
        self.phase = Phase::Productive {
            level: self.on.success(),
            dropped: 0,
        };
        self.wait = TEST_AFTER;
        Advice::On
    }

    fn recovered(&mut self) -> Advice {
        *self = Self {
            price: self.price,
            ..Self::default()
        };
        Advice::Recovered
    }

    /// Compares the arms and decides.
    fn judge(&mut self, now: Instant) -> Advice {
        self.gain = compare(&self.on, &self.off);
        if self.gain.is_some_and(|gain| clearly_above(gain, self.price)) {
            return self.productive();
        }
        self.suspend(now)
    }

    /// Retries stay off, or go off again where this was a test.
    fn suspend(&mut self, now: Instant) -> Advice {
        let again = matches!(self.phase, Phase::Testing);
        if again {
            self.wait = (self.wait * 2).min(TEST_AT_MOST);
            // Samples right after a test cover both arms.
            self.skip = SETTLE;
        }
        self.judged = now;
        self.phase = Phase::Off {
            test_at: now.after(self.wait),
        };
        if again { Advice::Off } else { Advice::AsGuarded }
    }
}

impl Health {
    /// Takes a sample without retries in. True where the service was down and answers again.
    fn recovered(&mut self, tally: &Tally) -> bool {
        if tally.calls < 1.0 {
            return false;
        }
        if tally.rejected < RECOVERED {
            self.good_calls += tally.calls;
            return self.down && self.good_calls >= RECOVERED_CALLS;
        }
        self.good_calls = 0.0;
        if tally.success() < DOWN {
            self.down = true;
            self.mixed = 0;
        } else {
            self.mixed += 1;
            self.down = self.down && self.mixed < 2;
        }
        false
    }
}

impl Tally {
    fn of(counts: &Counts) -> Option<Self> {
        let (failed, retries) = (counts.failed? as f64, counts.retries? as f64);
        let calls = counts.calls as f64;
        Some(Self {
            calls,
            succeeded: (calls - failed).max(0.0),
            retries,
            retries_succeeded: counts.retries_succeeded.map(|succeeded| succeeded as f64),
            rejected: counts.rejected.map_or(failed, |rejected| rejected as f64) / calls.max(1.0),
        })
    }

    fn success(&self) -> f64 {
        self.succeeded / self.calls.max(1.0)
    }

    /// Whether clearly less than this share of its retries succeeded.
    fn wastes_retries(&self, share: f64) -> bool {
        self.retries_succeeded.is_some_and(|succeeded| {
            let error = variance(succeeded, self.retries).sqrt();
            self.retries >= LEAST_CALLS && succeeded / self.retries + CLEAR * error < share
        })
    }

    /// Whether clearly less than this share of its calls succeeded.
    fn clearly_below(&self, share: f64) -> bool {
        self.calls >= 1.0 && self.success() + CLEAR * variance(self.succeeded, self.calls).sqrt() < share
    }
}

impl Arm {
    fn push(&mut self, tally: Tally) {
        self.samples.push(tally);
        self.keep_last(SLOT);
    }

    fn keep_last(&mut self, most: usize) {
        let surplus = self.samples.len().saturating_sub(most);
        self.samples.drain(..surplus);
    }

    fn sum(&self, part: impl Fn(&Tally) -> f64) -> f64 {
        self.samples.iter().map(part).sum()
    }

    fn calls(&self) -> f64 {
        self.sum(|tally| tally.calls)
    }

    fn enough(&self) -> bool {
        self.samples.len() >= SLOT && self.calls() >= LEAST_CALLS
    }

    /// The share of calls that succeeded.
    fn success(&self) -> f64 {
        self.sum(|tally| tally.succeeded) / self.calls().max(1.0)
    }

    fn retries_per_call(&self) -> f64 {
        self.sum(|tally| tally.retries) / self.calls().max(1.0)
    }

    /// Whether almost every call succeeded in the end, by retries that may have helped. Retries can only add to rejections,
    /// so the calls that a rejection did not fail, per retry, are the most that the gain can be.
    fn saved(&self) -> bool {
        let calls = self.calls();
        let rejected = self.sum(|tally| tally.rejected * tally.calls);
        let failed = calls - self.sum(|tally| tally.succeeded);
        let at_best = (rejected - failed) / self.sum(|tally| tally.retries).max(1.0);
        self.enough() && self.success() >= SAVED && at_best >= SAVED_GAIN
    }

    fn variance(&self) -> f64 {
        variance(self.sum(|tally| tally.succeeded), self.calls())
    }
}

/// The variance of the share that succeeded; never zero: one more success and one more failure than were seen.
fn variance(succeeded: f64, calls: f64) -> f64 {
    let share = (succeeded + 1.0) / (calls + 2.0);
    share * (1.0 - share) / calls.max(1.0)
}

fn clearly_above(gain: Gain, price: f64) -> bool {
    gain.value - CLEAR * gain.error > price
}

fn clearly_below(gain: Gain, price: f64) -> bool {
    gain.value + CLEAR * gain.error < price
}

/// The gain; `None` where an arm has too few calls or retries hardly differ.
fn compare(on: &Arm, off: &Arm) -> Option<Gain> {
    let more = on.retries_per_call() - off.retries_per_call();
    if on.calls() < LEAST_CALLS || off.calls() < LEAST_CALLS || more < 0.02 {
        return None;
    }
    Some(Gain {
        value: (on.success() - off.success()) / more,
        error: (on.variance() + off.variance()).sqrt() / more,
    })
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of simulated calls are small and not negative"
)]
mod tests;
