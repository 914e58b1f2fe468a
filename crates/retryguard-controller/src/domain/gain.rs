//! Whether retries help: measured by what a service's calls come to with and without them.
//!
//! A share of rejections cannot tell random failures from an overload: both answer 503. What tells them apart is the **gain**:
//! the number of additional successful calls per additional attempt. It is close to one where failures are random and there
//! is capacity to spare, about zero where each retry that succeeds displaces another request, and negative where attempts
//! cost capacity that others need.
//!
//! A data plane's retries can be switched for the whole service, so on and off are the two arms of the measurement, for
//! several samples each. The threshold guard still acts first, because an overload does not wait: when it switches retries off,
//! the samples before are the arm "on" and the samples after it the arm "off". Where the gain is clearly above its price,
//! retries come back although requests fail; where it is not, they stay off, and short tests measure again.

use std::time::Duration;

use retryguard_core::Instant;

use crate::domain::counts::Counts;

/// The least gain for which a retry is worth sending.
pub const PRICE: f64 = 0.15;
/// How many standard errors make a difference clear.
pub const CLEAR: f64 = 1.5;
/// Samples after a switch that do not count: they cover both arms, and queues remember the arm before.
const SETTLE: u32 = 2;
/// Samples of one arm that are compared.
const SLOT: u32 = 3;
/// The calls that each arm must hold before it means anything.
const LEAST_CALLS: f64 = 20.0;
/// The samples of the arm "on" that are kept while nothing is measured.
const KEPT: usize = 5;
/// Retries that are off are tested after this time; each test that finds no gain doubles it.
const TEST_AFTER: Duration = Duration::from_secs(30);
/// The longest time between two tests.
const TEST_AT_MOST: Duration = Duration::from_secs(240);
/// Fewer rejections than this share are a service that has recovered.
const RECOVERED: f64 = 0.05;
/// How far the success of calls may fall below what it was at the measurement before that is made again.
const DROP: f64 = 0.1;

/// The gain and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Additional successful calls per additional attempt.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// What the measurement wants of the retries, over the threshold guard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// As the threshold guard decides.
    AsGuarded,
    /// On: the gain is above its price, or is being tested.
    On,
    /// Off: the gain is being measured again.
    Off,
    /// The service was down and has recovered: the threshold guard begins anew.
    Recovered,
}

/// The measurement for one target.
#[derive(Debug, Clone)]
pub struct Measurement {
    phase: Phase,
    /// The latest samples with retries on.
    on: Arm,
    /// The samples since retries went off.
    off: Arm,
    skip: u32,
    gain: Option<Gain>,
    wait: Duration,
    /// While off: the last samples had hardly any success.
    down: bool,
    /// While off: samples in a row without rejections.
    good: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The threshold guard has retries on.
    Watching,
    /// Retries have just gone off: the arm "off" is counted.
    Measuring,
    /// Retries help, although requests fail. The success of calls when that was found.
    Productive { level: f64 },
    /// Retries do not help.
    Off { test_at: Instant },
    /// Retries are on for a slot.
    Testing,
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
}

impl Default for Measurement {
    fn default() -> Self {
        Self {
            phase: Phase::Watching,
            on: Arm::default(),
            off: Arm::default(),
            skip: 0,
            gain: None,
            wait: TEST_AFTER,
            down: false,
            good: 0,
        }
    }
}

impl Measurement {
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

    /// Takes a sample in. `guard_on` says whether the threshold guard, which has seen it already, lets retries through.
    /// Counts without retries or without the calls that failed in the end measure nothing.
    pub fn observe(&mut self, counts: &Counts, guard_on: bool, now: Instant) -> Advice {
        let (Some(failed), Some(retries)) = (counts.failed, counts.retries) else {
            return Advice::AsGuarded;
        };
        let calls = counts.calls as f64;
        let tally = Tally {
            calls,
            succeeded: (calls - failed as f64).max(0.0),
            retries: retries as f64,
        };
        let rejected = counts.rejected.unwrap_or(failed) as f64 / calls.max(1.0);
        if guard_on && !matches!(self.phase, Phase::Testing) {
            self.phase = Phase::Watching;
            self.wait = TEST_AFTER;
            self.on.push(tally, KEPT);
            return Advice::AsGuarded;
        }
        let settled = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        match self.phase {
            Phase::Watching => {
                // This sample is the one that made the guard switch off: its calls had their retries.
                self.on.push(tally, KEPT);
                self.begin_off();
                Advice::AsGuarded
            }
            Phase::Measuring => {
                if settled {
                    self.off.push(tally, KEPT);
                    self.note_health(&tally, rejected);
                }
                if self.off.enough() {
                    return self.judge(now);
                }
                Advice::Off
            }
            Phase::Productive { level } => {
                self.on.push(tally, SLOT as usize);
                if self.on.calls() >= LEAST_CALLS && self.on.success() + DROP < level {
                    // Something has changed: measured again, with retries off first.
                    self.begin_off();
                    return Advice::Off;
                }
                Advice::On
            }
            Phase::Off { test_at } => {
                self.off.push(tally, KEPT);
                if self.note_health(&tally, rejected) {
                    *self = Self::default();
                    return Advice::Recovered;
                }
                // A service that answers hardly anything is not tested: there is nothing to gain.
                if now >= test_at && rejected > RECOVERED && !self.down {
                    self.phase = Phase::Testing;
                    self.on = Arm::default();
                    self.skip = SETTLE;
                    return Advice::On;
                }
                Advice::AsGuarded
            }
            Phase::Testing => {
                if settled {
                    self.on.push(tally, KEPT);
                }
                if self.on.enough() {
                    return self.judge(now);
                }
                Advice::On
            }
        }
    }

    fn begin_off(&mut self) {
        self.phase = Phase::Measuring;
        self.off = Arm::default();
        self.skip = SETTLE;
        self.down = false;
        self.good = 0;
    }

    /// Compares the arms and decides.
    fn judge(&mut self, now: Instant) -> Advice {
        self.gain = compare(&self.on, &self.off);
        let clear = self
            .gain
            .is_some_and(|gain| gain.value - CLEAR * gain.error > PRICE);
        if clear {
            self.phase = Phase::Productive {
                level: self.on.success(),
            };
            self.wait = TEST_AFTER;
            return Advice::On;
        }
        let again = matches!(self.phase, Phase::Testing);
        if again {
            self.wait = (self.wait * 2).min(TEST_AT_MOST);
        }
        self.phase = Phase::Off {
            test_at: now.after(self.wait),
        };
        if again { Advice::Off } else { Advice::AsGuarded }
    }

    /// While off: true where the service was down and has answered two samples in a row.
    fn note_health(&mut self, tally: &Tally, rejected: f64) -> bool {
        if tally.calls < 1.0 {
            return false;
        }
        if rejected < RECOVERED {
            self.good += 1;
            return self.down && self.good >= 2;
        }
        self.good = 0;
        self.down = tally.succeeded / tally.calls < PRICE;
        false
    }
}

impl Arm {
    fn push(&mut self, tally: Tally, most: usize) {
        while self.samples.len() >= most.max(1) {
            self.samples.remove(0);
        }
        self.samples.push(tally);
    }

    fn sum(&self, part: impl Fn(&Tally) -> f64) -> f64 {
        self.samples.iter().map(part).sum()
    }

    fn calls(&self) -> f64 {
        self.sum(|tally| tally.calls)
    }

    fn enough(&self) -> bool {
        self.samples.len() >= SLOT as usize && self.calls() >= LEAST_CALLS
    }

    /// The share of calls that succeeded.
    fn success(&self) -> f64 {
        self.sum(|tally| tally.succeeded) / self.calls().max(1.0)
    }

    fn retries_per_call(&self) -> f64 {
        self.sum(|tally| tally.retries) / self.calls().max(1.0)
    }

    /// The variance of the share that succeeded; never zero: one more success and one more failure than were seen.
    fn variance(&self) -> f64 {
        let calls = self.calls();
        let share = (self.sum(|tally| tally.succeeded) + 1.0) / (calls + 2.0);
        share * (1.0 - share) / calls.max(1.0)
    }
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
mod tests {
    use super::*;

    /// What a service's callers see in a second, with up to two retries for each call.
    #[derive(Clone, Copy)]
    enum World {
        Random(f64),
        /// Calls and capacity a second; what does not fit is rejected at once.
        Overload(f64, f64),
        Down,
        Calm,
    }

    fn second(world: World, retries_on: bool) -> Counts {
        let attempts = if retries_on { 3 } else { 1 };
        let (calls, p): (f64, f64) = match world {
            World::Calm => (200.0, 0.0),
            World::Down => (200.0, 1.0),
            World::Random(p) => (200.0, p),
            World::Overload(calls, capacity) => {
                // The share of attempts that are rejected: p with calls · (1 + p + p²) · (1 − p) = capacity.
                let served = |p: f64| calls * (1.0 - f64::powi(p, attempts));
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..50 {
                    let middle = f64::midpoint(low, high);
                    if served(middle) > capacity {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                (calls, low)
            }
        };
        let failed = calls * f64::powi(p, attempts);
        let retries: f64 = (1..attempts).map(|number| calls * f64::powi(p, number)).sum();
        Counts {
            calls: calls as u64,
            rejected: Some((calls * p).round() as u64),
            retries: Some(retries.round() as u64),
            retries_succeeded: None,
            failed: Some(failed.round() as u64),
            delay: None,
        }
    }

    /// Plays `seconds` of a world; a stand-in for the threshold guard goes off above 20 % and on below 10 %.
    struct Play {
        measurement: Measurement,
        guard_on: bool,
        advice: Advice,
        now: u64,
        above: u32,
        on_for: u32,
        of: u32,
    }

    impl Play {
        fn new() -> Self {
            Self {
                measurement: Measurement::default(),
                guard_on: true,
                advice: Advice::AsGuarded,
                now: 0,
                above: 0,
                on_for: 0,
                of: 0,
            }
        }

        fn is_on(&self) -> bool {
            match self.advice {
                Advice::On | Advice::Recovered => true,
                Advice::Off => false,
                Advice::AsGuarded => self.guard_on,
            }
        }

        fn play(&mut self, world: World, seconds: u32) -> f64 {
            (self.on_for, self.of) = (0, seconds);
            for _ in 0..seconds {
                self.now += 1;
                let on = self.is_on();
                self.on_for += u32::from(on);
                let counts = second(world, on);
                let share = counts.rejected.unwrap() as f64 / counts.calls as f64;
                self.above = if share > 0.2 { self.above + 1 } else { 0 };
                if self.above >= 5 {
                    self.guard_on = false;
                } else if share < 0.1 {
                    self.guard_on = self.guard_on || on;
                }
                self.advice = self
                    .measurement
                    .observe(&counts, self.guard_on, Instant::from_secs(self.now));
                if self.advice == Advice::Recovered {
                    self.guard_on = true;
                    self.above = 0;
                }
            }
            f64::from(self.on_for) / f64::from(seconds)
        }
    }

    /// With 25 % random failures the threshold alone kept retries off and lowered the success from 100 % to 77 %.
    #[test]
    fn random_failures_keep_their_retries() {
        let mut play = Play::new();
        play.play(World::Calm, 20);
        let on = play.play(World::Random(0.25), 120);
        assert!(on > 0.9, "{on}");
        assert!(play.measurement.is_productive());
        let gain = play.measurement.gain().unwrap();
        assert!((gain.value - 0.75).abs() < 0.1, "{gain:?}");
    }

    #[test]
    fn an_overload_loses_its_retries_but_for_tests() {
        let mut play = Play::new();
        play.play(World::Calm, 20);
        let on = play.play(World::Overload(300.0, 150.0), 300);
        assert!(on < 0.15, "{on}");
        assert!(play.measurement.gain().unwrap().value < PRICE);
    }

    /// Retries that helped against random failures go off within five samples of an overload.
    #[test]
    fn a_random_failure_that_turns_into_an_overload_is_noticed() {
        let mut play = Play::new();
        play.play(World::Random(0.25), 60);
        assert!(play.measurement.is_productive());
        play.play(World::Overload(300.0, 150.0), 5);
        assert!(!play.is_on());
        let on = play.play(World::Overload(300.0, 150.0), 60);
        assert!(on < 0.2, "{on}");
    }

    #[test]
    fn an_outage_is_off_and_its_end_brings_retries_back_within_two_samples() {
        let mut play = Play::new();
        play.play(World::Calm, 20);
        play.play(World::Down, 60);
        assert!(!play.is_on());
        assert_eq!(play.on_for, 5, "no tests while nothing answers");
        play.play(World::Calm, 2);
        assert!(play.is_on());
    }

    #[test]
    fn the_four_phases_in_a_row() {
        let mut play = Play::new();
        assert_eq!(play.play(World::Calm, 30), 1.0);
        assert!(play.play(World::Random(0.25), 60) > 0.85);
        assert!(play.play(World::Overload(300.0, 150.0), 60) < 0.25);
        assert!(play.play(World::Down, 60) < 0.15);
        play.play(World::Calm, 2);
        assert!(play.is_on());
    }

    #[test]
    fn a_source_without_the_counts_measures_nothing() {
        let mut measurement = Measurement::default();
        let counts = Counts {
            failed: None,
            ..second(World::Random(0.25), true)
        };
        for now in 0..100 {
            let advice = measurement.observe(&counts, now < 50, Instant::from_secs(now));
            assert_eq!(advice, Advice::AsGuarded);
        }
        assert_eq!(measurement.gain(), None);
    }
}
