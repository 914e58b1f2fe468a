//! The guard: switches a target's retries off while they are counter-productive.
//!
//! One guard per target, fed with [`Sample`]s: counts over an interval. The library feeds it its own calls,
//! a controller those of a whole service. Retries help against random faults and harm an overloaded target,
//! so the guard looks at what speaks of load, and at nothing else.

mod algorithm1;
mod dependence;
mod hysteresis;
mod response;

use std::time::Duration;

use crate::{chance::Chance, pace::Pace, ratio::Ratio, time::Instant};

pub use hysteresis::Hysteresis;
pub use response::{Gain, Response, WallClock};

pub(crate) use response::{Arm, Ended};

use algorithm1::Algorithm1;

/// What the guard looks at and how it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What is read from a sample.
    pub signal: Signal,
    /// How readings become decisions.
    pub mode: Mode,
    /// How much time one sample covers, where the driver itself takes the samples.
    pub interval: Duration,
}

impl Default for Settings {
    /// Rejections of first attempts, a sample a second, decided with hysteresis.
    fn default() -> Self {
        Self {
            signal: Signal::Rejections,
            mode: Mode::Hysteresis(Hysteresis::default()),
            interval: Duration::from_secs(1),
        }
    }
}

/// What is read from a sample. All readings are ratios; a delay is read in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The share of first attempts that were rejected for load.
    Rejections,
    /// Retries per call. Blind while retries are off, so it is read only while some are let through.
    RetriesPerCall,
    /// The delay that the sample reports, in seconds.
    Delay,
}

impl Signal {
    /// The word used in policies and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejections => "rejections",
            Self::RetriesPerCall => "retries-per-call",
            Self::Delay => "delay",
        }
    }
}

/// How readings become decisions. More ways may come, such as one that measures whether retries raise
/// goodput at all; a sample already says how many retries succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Algorithm 1 of the RetryGuard paper, to the letter: off at the start, one threshold, a number of
    /// consecutive samples on one side of it. Kept for comparison.
    Algorithm1 {
        /// The threshold.
        threshold: Ratio,
        /// How many consecutive samples decide.
        samples: u32,
    },
    /// Two thresholds, a minimum of calls, a cool-down and a ramp.
    Hysteresis(Hysteresis),
    /// Measures what retries add.
    Response(Response),
}

/// Counts over one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// First attempts that ended.
    pub calls: u64,
    /// How many of them were rejected for load. Retries that the guard itself held back are not rejections.
    pub rejected: u64,
    /// Retries that were sent.
    pub retries: u64,
    /// How many retries ended in a success.
    pub retries_succeeded: u64,
    /// The delay quantile of the interval, where the driver measures one.
    pub delay: Option<Duration>,
}

impl Sample {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.rejected += other.rejected;
        self.retries += other.retries;
        self.retries_succeeded += other.retries_succeeded;
        self.delay = self.delay.max(other.delay);
    }
}

/// What the guard lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Every retry.
    On,
    /// None.
    Off,
    /// Some: a share that doubles with every step, or as many as the budget and the rule for unclear cases allow.
    Ramping {
        /// The step, from zero.
        step: u8,
    },
}

impl State {
    /// The word used in metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "allowed",
            Self::Off => "suspended",
            Self::Ramping { .. } => "limited",
        }
    }
}

/// A change of state and the numbers that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// Why.
    pub reason: Reason,
}

/// Why the guard changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The signal rose above its threshold.
    Above(Evidence),
    /// The signal stayed below its threshold.
    Below(Evidence),
    /// So few calls were made for so long that their retries cannot be what overloads the target.
    Quiet,
    /// The measured gain of retries was compared with their price.
    Gain {
        /// Additional successes per additional attempt, in thousandths.
        thousandths: i32,
        /// Its standard error, in thousandths.
        error: u32,
    },
    /// Attempts fail more often while answers are slow.
    Load,
    /// New settings asked for it.
    Replaced,
}

/// The numbers behind a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// What was read.
    pub signal: Signal,
    /// The reading.
    pub reading: Ratio,
    /// What it was compared with.
    pub threshold: Ratio,
    /// The calls it was read from.
    pub calls: u64,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (side, evidence) = match self {
            Self::Above(evidence) => ("above", evidence),
            Self::Below(evidence) => ("below", evidence),
            Self::Quiet => return f.write_str("too few calls to be the cause of an overload"),
            Self::Gain { thousandths, error } => {
                let (gain, error) = (f64::from(*thousandths) / 1000.0, f64::from(*error) / 1000.0);
                return write!(f, "each retry adds {gain:.2} ± {error:.2} successes");
            }
            Self::Load => {
                return f
                    .write_str("attempts fail more often while answers are slow: failures come from load");
            }
            Self::Replaced => return f.write_str("new settings"),
        };
        write!(
            f,
            "{} {:.4} {side} {:.4} over {} calls",
            evidence.signal.as_str(),
            evidence.reading.as_f64(),
            evidence.threshold.as_f64(),
            evidence.calls
        )
    }
}

/// The guard of one target.
///
/// `S` keeps the settings: they themselves, or something that many targets share.
#[derive(Debug, Clone)]
pub struct Guard<S = Settings> {
    settings: S,
    machine: Machine,
}

#[derive(Debug, Clone)]
enum Machine {
    Algorithm1(Algorithm1),
    Hysteresis(Box<hysteresis::Machine>),
    Response(response::Machine),
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsRef<Settings>> Guard<S> {
    /// A guard that has seen nothing: off in `Algorithm1`, as the paper has it, and on otherwise.
    #[must_use]
    pub fn new(settings: S, now: Instant) -> Self {
        let machine = match settings.as_ref().mode {
            Mode::Algorithm1 { .. } => Machine::Algorithm1(Algorithm1::default()),
            Mode::Hysteresis(_) => Machine::Hysteresis(Box::new(hysteresis::Machine::new(now))),
            Mode::Response(rules) => Machine::Response(response::Machine::new(&rules)),
        };
        Self { settings, machine }
    }

    /// A guard that goes on from a state that another one left, such as a controller before it was restarted.
    /// It has seen nothing yet, and the cool-down and the step begin anew: what was read then is not known now.
    #[must_use]
    pub fn resume(settings: S, state: State, now: Instant) -> Self {
        let machine = match settings.as_ref().mode {
            Mode::Algorithm1 { .. } => Machine::Algorithm1(Algorithm1::resume(state)),
            Mode::Hysteresis(rules) => {
                Machine::Hysteresis(Box::new(hysteresis::Machine::resume(state, &rules, now)))
            }
            Mode::Response(rules) => Machine::Response(response::Machine::new(&rules)),
        };
        Self { settings, machine }
    }

    /// Changes the settings. The state is kept where the mode is the same.
    pub fn replace(&mut self, settings: S, now: Instant) {
        let (old, new) = (self.settings.as_ref(), settings.as_ref());
        let same = matches!(
            (old.mode, new.mode),
            (Mode::Algorithm1 { .. }, Mode::Algorithm1 { .. })
                | (Mode::Hysteresis(_), Mode::Hysteresis(_))
                | (Mode::Response(_), Mode::Response(_))
        );
        if same && old.signal == new.signal {
            self.settings = settings;
        } else {
            *self = Self::new(settings, now);
        }
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.settings.as_ref()
    }

    /// The state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        match &self.machine {
            Machine::Algorithm1(machine) => machine.state(),
            Machine::Hysteresis(machine) => machine.state(),
            Machine::Response(machine) => machine.state(),
        }
    }

    /// The share of retries that are let through. One where the budget alone limits them; none where they are suspended, though a
    /// guard that measures still tests them now and then.
    #[inline]
    #[must_use]
    pub fn share(&self) -> Ratio {
        match (self.state(), self.settings.as_ref().mode) {
            (State::On, _) | (State::Ramping { .. }, Mode::Response(_)) => Ratio::ONE,
            (State::Ramping { step }, Mode::Hysteresis(rules)) => rules.share(step),
            (State::Off | State::Ramping { .. }, _) => Ratio::ZERO,
        }
    }

    /// Whether one retry is let through, where that does not depend on the time.
    pub fn allows(&self, chance: &mut impl Chance) -> bool {
        self.allows_at(Instant::ZERO, chance)
    }

    /// Whether one retry that falls due at `at` is let through.
    pub fn allows_at(&self, at: Instant, chance: &mut impl Chance) -> bool {
        match &self.machine {
            Machine::Response(machine) => machine.allows(at),
            Machine::Algorithm1(_) | Machine::Hysteresis(_) => chance.happens(self.share()),
        }
    }

    /// The machine that measures, in that mode.
    #[inline]
    pub(crate) fn response(&self) -> Option<&response::Machine> {
        match &self.machine {
            Machine::Response(machine) => Some(machine),
            Machine::Algorithm1(_) | Machine::Hysteresis(_) => None,
        }
    }

    /// The clock that the clients of a target share; `None` where ours is not to be trusted. Whether the guard keeps it:
    /// only one that measures does.
    pub fn set_clock(&mut self, clock: Option<WallClock>) -> bool {
        if let Machine::Response(machine) = &mut self.machine {
            machine.set_clock(clock);
            return true;
        }
        false
    }

    /// The clock that it keeps.
    pub(crate) fn clock(&self) -> Option<WallClock> {
        self.response().and_then(response::Machine::clock)
    }

    /// The retries of one call, where the guard bounds them.
    #[inline]
    pub(crate) fn retries(&self) -> u8 {
        match (&self.machine, self.settings.as_ref().mode) {
            (Machine::Response(machine), Mode::Response(rules)) if machine.state() != State::On => {
                rules.limited_retries
            }
            _ => u8::MAX,
        }
    }

    /// Whether it is clear that retries help, so that no budget need bound them.
    #[inline]
    pub(crate) fn is_productive(&self) -> bool {
        self.response()
            .is_some_and(|machine| machine.state() == State::On)
    }

    /// Whether the guard measures and few first attempts fail lately.
    #[inline]
    pub(crate) fn fails_seldom(&self) -> bool {
        self.response().is_some_and(response::Machine::fails_seldom)
    }

    /// The share of recent attempts that failed, where the guard measures; none where it does not.
    #[inline]
    pub(crate) fn failing_now(&self) -> f64 {
        match &self.machine {
            Machine::Response(machine) => machine.failing_now(),
            _ => 0.0,
        }
    }

    /// Whether the guard measures and enough attempts succeed lately for a retry to be worth its price.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        match (&self.machine, &self.settings.as_ref().mode) {
            (Machine::Response(machine), Mode::Response(rules)) => machine.is_answered(rules),
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn arm(&self, now: Instant) -> Arm {
        self.response().map_or(Arm::Neither, |machine| machine.arm(now))
    }

    #[inline]
    pub(crate) fn put_off(&self, at: Instant, chance: &mut impl Chance) -> Instant {
        self.response().map_or(at, |machine| machine.put_off(at, chance))
    }

    #[inline]
    pub(crate) fn on_attempt(&mut self, first: bool, arm: Arm) {
        if let Machine::Response(machine) = &mut self.machine {
            machine.on_start(first, arm);
        }
    }

    /// Until when the successes of first attempts change no decision; `None` where they do. A guard that is fed with samples
    /// receives none of them.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        match &self.machine {
            Machine::Response(machine) => machine.rests_until(),
            Machine::Algorithm1(_) | Machine::Hysteresis(_) => Some(Instant::NEVER),
        }
    }

    /// Whether the success of a first attempt has to be told.
    pub(crate) fn follows_each_end(&self) -> bool {
        self.response().is_some_and(response::Machine::follows_each_end)
    }

    /// A first attempt without an arm has succeeded before the guard's rest is over.
    #[inline]
    pub(crate) fn on_clean_end(&mut self, pace: &Pace) {
        if let Machine::Response(machine) = &mut self.machine {
            machine.on_clean_end(pace);
        }
    }

    #[inline]
    pub(crate) fn on_attempt_end(
        &mut self,
        ended: &Ended<'_>,
        pace: &Pace,
        now: Instant,
    ) -> Option<Decision> {
        match (&mut self.machine, &self.settings.as_ref().mode) {
            (Machine::Response(machine), Mode::Response(rules)) => machine.on_end(ended, pace, rules, now),
            _ => None,
        }
    }

    /// The gain of retries, where it is measured.
    #[must_use]
    pub fn gain(&self) -> Option<Gain> {
        self.response().map(response::Machine::gain)
    }

    /// Takes one sample in and says whether that changed the state.
    pub fn feed(&mut self, sample: &Sample, now: Instant) -> Option<Decision> {
        match (&mut self.machine, self.settings.as_ref().mode) {
            (Machine::Algorithm1(machine), Mode::Algorithm1 { threshold, samples }) => {
                machine.feed(sample, self.settings.as_ref().signal, threshold, samples)
            }
            (Machine::Hysteresis(machine), Mode::Hysteresis(rules)) => {
                machine.feed(sample, self.settings.as_ref().signal, &rules, now)
            }
            // `new` and `replace` keep the machine and the mode of one kind.
            (Machine::Response(_), Mode::Response(_)) => None,
            (Machine::Algorithm1(_) | Machine::Hysteresis(_) | Machine::Response(_), _) => {
                debug_assert!(false, "machine and mode differ");
                None
            }
        }
    }
}

/// The reading of a sample while `share` of retries is let through; `None` where it says nothing.
fn read(signal: Signal, sample: &Sample, share: Ratio) -> Option<Ratio> {
    match signal {
        Signal::Rejections => (sample.calls > 0).then(|| Ratio::of_counts(sample.rejected, sample.calls)),
        Signal::RetriesPerCall => {
            // Of the retries that callers wanted only a share was sent: scale back to what they wanted.
            let calls = share.of_nanos(sample.calls);
            (calls > 0).then(|| Ratio::of_counts(sample.retries, calls))
        }
        Signal::Delay => sample
            .delay
            .map(|delay| Ratio::from_parts(crate::time::nanos(delay))),
    }
}

#[cfg(test)]
mod tests;
