//! One target: readings come in, a desired comes out.
//!
//! Around the guard stands what a guard cannot know: whether there is anything to decide from. Without last_data
//! data the last decision holds for a stated time, and then the user's own configuration is what we want, so
//! that nothing stays switched off because data stopped coming.

use retryguard_core::{
    Instant, Ratio,
    guard::{self, Decision, Guard, Hysteresis, Mode, State},
};

use crate::domain::counts::Reading;
use crate::domain::limits::Limits;
use crate::domain::state::RetryState;

/// The watch over one target.
#[derive(Debug)]
pub struct TargetGuard {
    /// The guards that it can have, in the order in which they are wanted.
    guards: Vec<guard::Settings>,
    basis: Basis,
    /// Since when the desired is what it is.
    since: Instant,
    reason: String,
    last: Option<LastReading>,
}

/// What the desired rests on.
#[derive(Debug)]
enum Basis {
    /// Nothing: the user's own configuration is right. No signal is chosen yet.
    None,
    /// What was found in the data plane; no reading has come yet.
    Found { state: State, at: Instant },
    /// A guard that is fed. It has decided something `own_decision`, or only gone on from where it began.
    Guard {
        guard: Box<Guard>,
        last_data: Instant,
        own_decision: bool,
    },
}

/// The last reading that was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastReading {
    /// When.
    pub at: Instant,
    /// What was read, in the unit of the signal; `None` where the sample says nothing.
    pub value: Option<f64>,
    /// The calls that it was read from.
    pub calls: u64,
}

/// What became of a reading.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadingResult {
    /// It changed the desired.
    Decided(Decision),
    /// It was taken in and changed nothing.
    Accepted,
    /// It was left out, for this reason.
    Refused(Refusal),
}

/// Why a reading was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is too old.
    Stale,
    /// The signal that this target is watched by is missing.
    Missing,
    /// Its numbers cannot be true.
    Nonsense,
}

impl Refusal {
    /// The word used in metrics and the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Nonsense => "nonsense",
        }
    }
}

impl TargetGuard {
    /// A watch that has seen nothing and wants nothing.
    #[must_use]
    pub fn new(guards: Vec<guard::Settings>, now: Instant) -> Self {
        Self {
            guards,
            basis: Basis::None,
            since: now,
            reason: "no data yet".to_owned(),
            last: None,
        }
    }

    /// Goes on from what an earlier controller left in the data plane. Its reasons are not known, so it holds
    /// for the stated time and no longer, unless readings say otherwise.
    pub fn adopt(&mut self, desired: RetryState, now: Instant) {
        let state = match desired {
            RetryState::Original => return,
            RetryState::Off => State::Off,
            RetryState::Part { step, .. } => State::Ramping { step },
        };
        match &mut self.basis {
            Basis::None => self.basis = Basis::Found { state, at: now },
            // Readings may come before the data plane has said what it holds. A guard that has decided nothing yet
            // goes on from there; it must not take a storm that is held off for none.
            Basis::Guard {
                guard,
                own_decision: false,
                ..
            } => **guard = Guard::resume(*guard.settings(), state, now),
            // What this watch has decided by own_decision is newer than what was found.
            Basis::Guard { .. } | Basis::Found { .. } => return,
        }
        self.since = now;
        "found in the data plane, set by an earlier controller".clone_into(&mut self.reason);
    }

    /// Takes a reading in.
    pub fn read(&mut self, reading: &Reading, limits: &Limits, now: Instant) -> ReadingResult {
        if reading.age > limits.stale_after {
            return ReadingResult::Refused(Refusal::Stale);
        }
        if !reading.counts.plausible() {
            return ReadingResult::Refused(Refusal::Nonsense);
        }
        if !matches!(self.basis, Basis::Guard { .. }) {
            let Some(settings) = self.guards.iter().find(|guard| reading.counts.has(guard.signal)) else {
                return ReadingResult::Refused(Refusal::Missing);
            };
            let state = match self.basis {
                Basis::Found { state, .. } => state,
                // Algorithm 1 begins with retries off. Nothing is switched off here before anything is known.
                _ => State::On,
            };
            if state == State::On {
                "nothing speaks against retries so far".clone_into(&mut self.reason);
            }
            let guard = Box::new(Guard::resume(*settings, state, now));
            self.basis = Basis::Guard {
                guard,
                last_data: now,
                own_decision: false,
            };
        }
        let Basis::Guard {
            guard,
            last_data,
            own_decision,
        } = &mut self.basis
        else {
            return ReadingResult::Refused(Refusal::Missing);
        };
        let signal = guard.settings().signal;
        let Some(sample) = reading.counts.sample(signal) else {
            return ReadingResult::Refused(Refusal::Missing);
        };
        *last_data = now;
        self.last = Some(LastReading {
            at: now,
            value: reading.counts.value(signal),
            calls: reading.counts.calls,
        });
        let Some(decision) = guard.feed(&sample, now) else {
            return ReadingResult::Accepted;
        };
        *own_decision = true;
        self.since = now;
        self.reason = decision.reason.to_string();
        ReadingResult::Decided(decision)
    }

    /// Time passes. True where the last decision has held for as long as it may without last_data data; the desired is
    /// then the user's own configuration, and a signal is chosen anew when data comes back.
    pub fn tick(&mut self, limits: &Limits, now: Instant) -> bool {
        let last_data = match &self.basis {
            Basis::None => return false,
            Basis::Found { at, .. } => *at,
            Basis::Guard { last_data, .. } => *last_data,
        };
        if now.since(last_data) < limits.hold {
            return false;
        }
        let changed = self.desired() != RetryState::Original;
        self.basis = Basis::None;
        if changed {
            self.since = now;
        }
        self.reason = format!("no fresh data for {} s", limits.hold.as_secs());
        changed
    }

    /// Forgets everything, as when another controller takes over.
    pub fn forget(&mut self, now: Instant) {
        *self = Self::new(std::mem::take(&mut self.guards), now);
    }

    /// What shall be true of the target's retries.
    #[must_use]
    pub fn desired(&self) -> RetryState {
        let (state, share) = match &self.basis {
            Basis::None => return RetryState::Original,
            Basis::Found { state, .. } => (*state, self.share_of(*state)),
            Basis::Guard { guard, .. } => (guard.state(), guard.share()),
        };
        match state {
            State::On => RetryState::Original,
            State::Off => RetryState::Off,
            State::Ramping { step } => RetryState::Part { step, share },
        }
    }

    fn share_of(&self, state: State) -> Ratio {
        match (state, self.guards.first().map(|guard| guard.mode)) {
            (State::Ramping { step }, Some(Mode::Hysteresis(rules))) => rules.share(step),
            (State::Ramping { step }, _) => Hysteresis::default().share(step),
            (State::On, _) => Ratio::ONE,
            (State::Off, _) => Ratio::ZERO,
        }
    }

    /// The guard in force.
    #[must_use]
    pub fn guard(&self) -> Option<&Guard> {
        match &self.basis {
            Basis::Guard { guard, .. } => Some(guard),
            _ => None,
        }
    }

    /// Whether last_data data has been missing for longer than data may be old: the last decision holds.
    #[must_use]
    pub fn holds(&self, limits: &Limits, now: Instant) -> bool {
        match &self.basis {
            Basis::None => false,
            Basis::Found { .. } => true,
            Basis::Guard { last_data, .. } => now.since(*last_data) > limits.stale_after.min(limits.hold),
        }
    }

    /// The reason of the present desired, in a sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Since when the desired is what it is.
    #[must_use]
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// The last reading.
    #[must_use]
    pub const fn last(&self) -> Option<&LastReading> {
        self.last.as_ref()
    }
}
