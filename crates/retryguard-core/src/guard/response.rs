//! The default mode of the guard: measures what retries add.
//!
//! Whether retries help cannot be read from a failure rate: random faults and overload both answer 503. It can be
//! measured. All clients of a target send more retries in some slots of time and fewer in others, the same slots for
//! all of them, and compare how many calls succeed. The **gain** is the number of additional successes per additional
//! attempt: close to one for random faults, zero where each retry that succeeds displaces another request, and negative
//! where attempts cost capacity that others need.
//!
//! 1. The wall clock is cut into pairs of slots. A hash of the pair's number and the target's name decides which slot
//!    of a pair is the low one. Clients need not talk to each other: each computes the same answer.
//! 2. A retry that falls due in a low slot is put off to a random moment of the next high slot, if its deadline leaves
//!    time for that; otherwise it is sent at once. No retry is lost to the measurement.
//! 3. Attempts and successes are counted for the slot in which the attempt *started*. The first part of each slot is
//!    left out, because queues remember the slot before. Old counts are forgotten.
//! 4. The gain, together with what is known before any measurement, is compared with the **price**: the least gain
//!    for which a retry is worth sending. Clearly above: retries are allowed. Clearly below: they are suspended but for
//!    short tests. Unclear: they are limited to the ordinary budget.
//! 5. Where attempts clearly fail more often while answers are slow, failures come from load (see [`Dependence`]) and
//!    retries are suspended: a queue that lasts longer than a slot hides the harm from the measurement. That holds as long as a good
//!    part of the failures is of a kind that load can cause.
//! 6. While few attempts fail there is nothing to decide, and nothing is put off.

use std::time::Duration;

use super::{Decision, Reason, State, dependence::Dependence};
use crate::{
    chance::Chance,
    outcome::{Failure, FailureKind},
    pace::Pace,
    ratio::Ratio,
    time::{Instant, nanos},
};

/// What a retry is worth, and how it is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The least gain for which a retry is worth sending: what attempts cost, as a share of what a success is worth.
    pub price: Ratio,
    /// The retries of one call while it is not clear that they help.
    pub limited_retries: u8,
    /// The shortest and the longest slot. The length in force follows the latency.
    pub slot: Duration,
    /// See `slot`.
    pub slot_at_most: Duration,
}

impl Default for Response {
    /// A gain of 0.15, two retries while it is unclear, slots from 250 ms to 4 s.
    fn default() -> Self {
        Self {
            price: Ratio::percent(15),
            limited_retries: 2,
            slot: Duration::from_millis(250),
            slot_at_most: Duration::from_secs(4),
        }
    }
}

/// The clock that all clients of a target share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// What is added to an [`Instant`] to get nanoseconds since the Unix epoch. May wrap around.
    pub offset: u64,
    /// A number made of the target's name: two targets do not have their low slots at the same time.
    pub salt: u64,
}

/// The slot in which an attempt started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Arm {
    /// None that counts.
    #[default]
    Neither,
    Low,
    High,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub(crate) first: bool,
    pub(crate) arm: Arm,
    pub(crate) failure: Option<&'a Failure>,
    /// Whether it timed out while answers were quick, so that its message was most likely lost.
    pub(crate) quick: bool,
}

/// The gain and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Additional successes per additional attempt.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// First attempts and retries that started in the slots of one arm, and their successes.
#[derive(Debug, Clone, Copy)]
struct Counts {
    firsts: f64,
    firsts_succeeded: f64,
    retries: f64,
    retries_succeeded: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    state: State,
    guess: AssumedGain,
    clock: Option<WallClock>,
    /// The slot in force, in nanoseconds.
    slot: u64,
    /// The pair that runs, and when it ends in the driver's time.
    pair: u64,
    pair_ends: Instant,
    /// Made once an attempt has failed. On the heap: most clients of a large simulation never meet that.
    failures: Option<Box<FailureStatistics>>,
}

/// What the gain is taken for before any attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssumedGain {
    /// No pair has ended.
    First,
    /// Answers come as fast as usual.
    Fast,
    /// Answers are slower than usual.
    Slow,
}

/// What is known of failures and of retries.
#[derive(Debug, Clone)]
struct FailureStatistics {
    /// The share of first attempts that failed lately, and of retries that succeeded.
    failing: f64,
    retries_succeed: f64,
    /// Retries that have ended, up to 255.
    retried: u8,
    /// The share of recent attempts that succeeded.
    succeeding: f64,
    /// The share of recent failures that may speak of load.
    loaded: f64,
    gain: Gain,
    low: Counts,
    high: Counts,
    dependence: Dependence,
}

impl FailureStatistics {
    /// What is taken for granted before any attempt has failed.
    const NONE: Self = Self {
        failing: 0.0,
        retries_succeed: 0.5,
        retried: 0,
        succeeding: 1.0,
        loaded: 1.0,
        gain: Gain {
            value: 0.5,
            error: GUESS_ERROR,
        },
        low: Counts::NONE,
        high: Counts::NONE,
        dependence: Dependence::NONE,
    };
}

/// Nothing is measured while fewer first attempts fail.
const LITTLE: f64 = 0.02;
/// While fewer first attempts fail, retries add little to a queue.
const SELDOM: f64 = 0.15;
/// What is left of counts after one more measured pair.
const KEPT: f64 = 0.9;
/// How many standard errors below the price make it clear that retries add too little, and how many above it that they
/// help. The second is smaller: a wrong guess costs requests there, and calls here.
const CLEAR: f64 = 1.5;
const CLEAR_HELP: f64 = 1.2;
/// Whether retries help is never clear before so many of them have ended: a fleet that has just started knows nothing.
const TRIED: u8 = 2;
/// A gain is never above the share of retries that succeed, and below it wherever one displaces another request. So far
/// above the price that share must be.
const MARGIN: f64 = 0.1;
/// Failures come from load only where at least this share of the recent ones may speak of load.
const LOADED: f64 = 0.3;
/// How unsure the guess is that stands before any measurement.
const GUESS_ERROR: f64 = 0.4;
/// The part of a slot whose attempts do not count, as a divisor.
const SETTLING: u64 = 4;
/// A slot lasts so many times the usual latency.
const SLOT_PER_LATENCY: f64 = 4.0;
/// Suspended retries are tested in one pair of so many; allowed ones are measured in one of so many.
const TEST_EVERY: u64 = 12;
const CHECK_EVERY: u64 = 4;
/// Of how many attempts the recent shares are averaged.
const RECENT: f64 = 1.0 / 32.0;

impl Machine {
    pub(super) fn new(rules: &Response) -> Self {
        Self {
            state: State::Ramping { step: 0 },
            guess: AssumedGain::First,
            clock: None,
            slot: nanos(rules.slot).max(1),
            pair: 0,
            pair_ends: Instant::ZERO,
            failures: None,
        }
    }

    /// What is known of failures and of retries.
    fn known(&self) -> &FailureStatistics {
        static NONE: FailureStatistics = FailureStatistics::NONE;
        self.failures.as_deref().unwrap_or(&NONE)
    }

    /// The share of first attempts that failed lately.
    #[inline]
    fn failing(&self) -> f64 {
        self.failures.as_ref().map_or(0.0, |failures| failures.failing)
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    pub(super) fn gain(&self) -> Gain {
        match (&self.failures, self.guess) {
            (Some(failures), _) => failures.gain,
            (None, AssumedGain::First) => FailureStatistics::NONE.gain,
            (None, AssumedGain::Fast) => FailureStatistics::NONE.guess(false),
            (None, AssumedGain::Slow) => FailureStatistics::NONE.guess(true),
        }
    }

    /// Whether so few first attempts fail that retries add little load.
    pub(super) fn fails_seldom(&self) -> bool {
        self.failing() < SELDOM
    }

    /// The share of recent attempts that failed, retries among them.
    pub(super) fn failing_now(&self) -> f64 {
        1.0 - self.known().succeeding
    }

    /// Whether enough attempts succeed lately.
    pub(super) fn is_answered(&self, rules: &Response) -> bool {
        self.known().succeeding > rules.price.as_f64()
    }

    pub(super) fn set_clock(&mut self, clock: Option<WallClock>) {
        self.clock = clock;
    }

    pub(super) const fn clock(&self) -> Option<WallClock> {
        self.clock
    }

    /// The arm of an attempt that starts now.
    #[inline]
    pub(super) fn arm(&self, now: Instant) -> Arm {
        if self.failing() < LITTLE {
            return Arm::Neither;
        }
        self.arm_of(now)
    }

    #[cold]
    fn arm_of(&self, now: Instant) -> Arm {
        let Some((pair, within)) = self.place(now) else {
            return Arm::Neither;
        };
        if !self.measures(pair) || within % self.slot < self.slot / SETTLING {
            return Arm::Neither;
        }
        if self.is_low(pair, within) {
            Arm::Low
        } else {
            Arm::High
        }
    }

    /// The number of the pair and the time since it began.
    fn place(&self, now: Instant) -> Option<(u64, u64)> {
        let clock = self.clock?;
        let wall = now.as_nanos().wrapping_add(clock.offset);
        Some((wall / (2 * self.slot), wall % (2 * self.slot)))
    }

    fn is_low(&self, pair: u64, within: u64) -> bool {
        let first_is_low = mix(pair ^ self.salt()) & 1 == 0;
        (within < self.slot) == first_is_low
    }

    fn salt(&self) -> u64 {
        self.clock.map_or(0, |clock| clock.salt)
    }

    /// Whether a pair is one in which the retries of its low slot are put off.
    fn measures(&self, pair: u64) -> bool {
        let every = match self.state {
            State::Ramping { .. } => return true,
            State::On => CHECK_EVERY,
            State::Off => TEST_EVERY,
        };
        mix(pair ^ self.salt().rotate_left(17)).is_multiple_of(every)
    }

    /// Whether a retry may be sent at `at` as far as the state is concerned.
    pub(crate) fn allows(&self, at: Instant) -> bool {
        match self.state {
            State::On | State::Ramping { .. } => true,
            State::Off => {
                let place = self.place(at);
                place.is_some_and(|(pair, within)| self.measures(pair) && !self.is_low(pair, within))
            }
        }
    }

    /// When a retry that falls due at `at` is sent: then, or in the next high slot.
    #[inline]
    pub(super) fn put_off(&self, at: Instant, chance: &mut impl Chance) -> Instant {
        if self.failing() < LITTLE {
            return at;
        }
        self.next_high(at, chance)
    }

    #[cold]
    fn next_high(&self, at: Instant, chance: &mut impl Chance) -> Instant {
        let Some((pair, within)) = self.place(at) else {
            return at;
        };
        if !self.measures(pair) || !self.is_low(pair, within) {
            return at;
        }
        // The rest of this slot, the next pair's low slot if that is its first, and a part of the high slot.
        let mut wait = self.slot - within % self.slot;
        if within >= self.slot && self.measures(pair + 1) && self.is_low(pair + 1, 0) {
            wait += self.slot;
        }
        at.after(Duration::from_nanos(wait + chance.nanos_up_to(self.slot / 2)))
    }

    #[inline]
    pub(super) fn on_start(&mut self, first: bool, arm: Arm) {
        // An attempt has an arm only where others have failed.
        if let Some(counts) = self.failures.as_mut().and_then(|it| it.counts(arm)) {
            if first {
                counts.firsts += 1.0;
            } else {
                counts.retries += 1.0;
            }
        }
    }

    /// Until when the successes of first attempts change no decision; `None` where they do, or where attempts have arms.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        (self.failing() < LITTLE).then_some(self.pair_ends)
    }

    /// Whether the success of a first attempt has to be told.
    pub(super) const fn follows_each_end(&self) -> bool {
        self.failures.is_some()
    }

    /// A first attempt without an arm has succeeded, and no pair has ended.
    #[inline]
    pub(super) fn on_clean_end(&mut self, pace: &Pace) {
        if let Some(failures) = &mut self.failures {
            let ended = Ended {
                first: true,
                arm: Arm::Neither,
                failure: None,
                quick: false,
            };
            failures.on_end(&ended, pace);
        }
    }

    #[inline]
    pub(super) fn on_end(
        &mut self,
        ended: &Ended<'_>,
        pace: &Pace,
        rules: &Response,
        now: Instant,
    ) -> Option<Decision> {
        // A first attempt that succeeds changes nothing as long as none has failed.
        if self.failures.is_some() || !ended.first || ended.failure.is_some() {
            let gain = self.gain();
            let failures = self.failures.get_or_insert_with(|| {
                Box::new(FailureStatistics {
                    gain,
                    ..FailureStatistics::NONE
                })
            });
            failures.on_end(ended, pace);
        }
        if now < self.pair_ends {
            return None;
        }
        let from = self.state;
        self.end_pair(pace, rules, now);
        self.decision(from)
    }

    /// What has changed since the guard was in the state `from`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float stays within the bounds of the integer"
    )]
    fn decision(&self, from: State) -> Option<Decision> {
        let to = self.state;
        if from == to {
            return None;
        }
        let reason = if to == State::Off && self.comes_from_load() {
            Reason::Load
        } else {
            Reason::Gain {
                thousandths: (self.gain().value * 1000.0).round() as i32,
                error: (self.gain().error * 1000.0).round() as u32,
            }
        };
        Some(Decision { from, to, reason })
    }

    /// Whether attempts clearly fail more often while answers are slow. Where most failures are of a kind that no load causes,
    /// retries are there for those, whatever the others come from.
    fn comes_from_load(&self) -> bool {
        let known = self.known();
        known.dependence.is_clear() && known.loaded >= LOADED
    }

    #[cold]
    fn end_pair(&mut self, pace: &Pace, rules: &Response, now: Instant) {
        self.decide(pace, rules);
        let Some((pair, within)) = self.place(now) else {
            self.pair_ends = now.after(Duration::from_nanos(2 * self.slot));
            return;
        };
        if pair != self.pair
            && self.measures(self.pair)
            && let Some(failures) = &mut self.failures
        {
            for counts in [&mut failures.low, &mut failures.high] {
                counts.firsts *= KEPT;
                counts.firsts_succeeded *= KEPT;
                counts.retries *= KEPT;
                counts.retries_succeeded *= KEPT;
            }
        }
        let slot = self.slot_for(pace, rules);
        if slot != self.slot {
            self.slot = slot;
            let (pair, within) = self.place(now).unwrap_or_default();
            self.pair = pair;
            self.pair_ends = now.after(Duration::from_nanos(2 * slot - within));
            return;
        }
        self.pair = pair;
        self.pair_ends = now.after(Duration::from_nanos(2 * self.slot - within));
    }

    /// The length of slots: a few times the latency, so that a slot's effect shows within it; a power of two of the
    /// shortest, so that clients which read slightly different latencies agree.
    fn slot_for(&self, pace: &Pace, rules: &Response) -> u64 {
        let wanted = SLOT_PER_LATENCY * pace.usual();
        let least = nanos(rules.slot).max(1_000_000);
        let most = nanos(rules.slot_at_most).max(least);
        let mut slot = self.slot.max(least);
        while slot as f64 * 1.2 < wanted && slot < most {
            slot *= 2;
        }
        while slot as f64 > 3.0 * wanted && slot > least {
            slot /= 2;
        }
        slot.clamp(least, most)
    }

    fn decide(&mut self, pace: &Pace, rules: &Response) {
        let is_slow = pace.is_slow();
        match &mut self.failures {
            Some(failures) => failures.gain = failures.estimate(is_slow),
            None => {
                self.guess = if is_slow {
                    AssumedGain::Slow
                } else {
                    AssumedGain::Fast
                }
            }
        }
        let (known, gain) = (self.known(), self.gain());
        let price = rules.price.as_f64();
        let above = (gain.value - price) / gain.error;
        self.state = if self.clock.is_none() {
            State::Ramping { step: 0 }
        } else if known.succeeding < price / 4.0 {
            // Hardly anything succeeds: no retry can add more than that, whatever was guessed before the first one ended.
            State::Off
        } else if self.comes_from_load() {
            State::Off
        } else if above > CLEAR_HELP && known.retried >= TRIED {
            State::On
        } else if above < -CLEAR || known.succeeding < price || known.retries_succeed < price + MARGIN {
            State::Off
        } else {
            State::Ramping { step: 0 }
        };
    }
}

impl FailureStatistics {
    fn on_end(&mut self, ended: &Ended<'_>, pace: &Pace) {
        let Ended {
            first,
            arm,
            failure,
            quick,
        } = *ended;
        let success = failure.is_none();
        let loaded = failure.is_some_and(|it| match it.kind {
            FailureKind::Overload => true,
            FailureKind::Timeout => !quick,
            _ => false,
        });
        if self.failing >= LITTLE {
            self.dependence.on_end(loaded, pace.recent());
        }
        if !success {
            self.loaded += (f64::from(u8::from(loaded)) - self.loaded) * 4.0 * RECENT;
        }
        self.succeeding += (f64::from(u8::from(success)) - self.succeeding) * 4.0 * RECENT;
        if first {
            self.failing += (f64::from(u8::from(!success)) - self.failing) * RECENT;
        } else {
            self.retried = self.retried.saturating_add(1);
            // The first retries count for more: little is known before them.
            let weight = RECENT.max(1.0 / (f64::from(self.retried) + 2.0));
            self.retries_succeed += (f64::from(u8::from(success)) - self.retries_succeed) * weight;
        }
        if success && let Some(counts) = self.counts(arm) {
            if first {
                counts.firsts_succeeded += 1.0;
            } else {
                counts.retries_succeeded += 1.0;
            }
        }
    }

    #[inline]
    const fn counts(&mut self, arm: Arm) -> Option<&mut Counts> {
        match arm {
            Arm::Neither => None,
            Arm::Low => Some(&mut self.low),
            Arm::High => Some(&mut self.high),
        }
    }

    /// The guess that stands before any measurement: retries go on as they went lately, unless answers are slower than usual,
    /// which is a queue that retries stand in.
    fn guess(&self, is_slow: bool) -> Gain {
        if is_slow {
            return Gain {
                value: 0.0,
                error: GUESS_ERROR,
            };
        }
        Gain {
            value: self.retries_succeed,
            error: 0.2 + 0.1 * self.loaded,
        }
    }

    /// The measured gain, together with the guess.
    fn estimate(&self, is_slow: bool) -> Gain {
        let guess = self.guess(is_slow);
        let (low, high) = (&self.low, &self.high);
        let more = high.per_first(high.retries) - low.per_first(low.retries);
        if high.firsts < 4.0 || low.firsts < 4.0 || more <= 0.02 {
            return guess;
        }
        let guess_weight = 1.0 / (guess.error * guess.error);
        let succeeded =
            |counts: &Counts| counts.per_first(counts.firsts_succeeded + counts.retries_succeeded);
        let measured = (succeeded(high) - succeeded(low)) / more;
        let variance = (high.variance() + low.variance()) / (more * more);
        let weight = 1.0 / variance;
        Gain {
            value: (measured * weight + guess.value * guess_weight) / (weight + guess_weight),
            error: (1.0 / (weight + guess_weight)).sqrt(),
        }
    }
}

impl Counts {
    const NONE: Self = Self {
        firsts: 0.0,
        firsts_succeeded: 0.0,
        retries: 0.0,
        retries_succeeded: 0.0,
    };

    fn per_first(&self, count: f64) -> f64 {
        count / self.firsts.max(1.0)
    }

    /// The variance of the successes per first attempt.
    fn variance(&self) -> f64 {
        let of = |succeeded: f64, all: f64| {
            // Never certain: one more success and one more failure than were seen.
            let share = (succeeded + 1.0) / (all + 2.0);
            all * share * (1.0 - share)
        };
        let sum = of(self.firsts_succeeded, self.firsts) + of(self.retries_succeeded, self.retries);
        sum.max(0.25) / (self.firsts * self.firsts).max(1.0)
    }
}

/// A hash of 64 bits whose low bits are as good as its high ones.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
