//! One target: readings come in, a wish comes out.
//!
//! Around the guard stands what a guard cannot know: whether there is anything to decide from. Without fresh
//! data the last decision holds for a stated time, and then the user's own configuration is what we want, so
//! that nothing stays switched off because somebody stopped looking.

use retryguard_core::{
    Instant, Ratio,
    guard::{self, Decision, Guard, Hysteresis, Mode, State},
};

use crate::{actuator::Wish, config::limits::Limits, source::Reading};

/// The watch over one target.
#[derive(Debug)]
pub struct Watch {
    /// The guards that it can have, in the order in which they are wanted.
    guards: Vec<guard::Settings>,
    evidence: Evidence,
    /// Since when the wish is what it is.
    since: Instant,
    why: String,
    last: Option<Seen>,
}

/// What the wish rests on.
#[derive(Debug)]
enum Evidence {
    /// Nothing: the user's own configuration is right. No signal is chosen yet.
    None,
    /// What was found in the data plane; no reading has come yet.
    Found { state: State, at: Instant },
    /// A guard that is fed. It has decided something `itself`, or only gone on from where it began.
    Guard {
        guard: Box<Guard>,
        fresh: Instant,
        itself: bool,
    },
}

/// The last reading that was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// What was read, in the unit of the signal; `None` where the sample says nothing.
    pub value: Option<f64>,
    /// The calls that it was read from.
    pub calls: u64,
}

/// What became of a reading.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// It changed the wish.
    Decided(Decision),
    /// It was taken in and changed nothing.
    Noted,
    /// It was left out, for this reason.
    Refused(Refused),
}

/// Why a reading was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// It is too old.
    Stale,
    /// The signal that this target is watched by is missing.
    Missing,
    /// Its numbers cannot be true.
    Nonsense,
}

impl Refused {
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

impl Watch {
    /// A watch that has seen nothing and wants nothing.
    #[must_use]
    pub fn new(guards: Vec<guard::Settings>, now: Instant) -> Self {
        Self {
            guards,
            evidence: Evidence::None,
            since: now,
            why: "no data yet".to_owned(),
            last: None,
        }
    }

    /// Goes on from what an earlier controller left in the data plane. Its reasons are not known, so it holds
    /// for the stated time and no longer, unless readings say otherwise.
    pub fn adopt(&mut self, wish: Wish, now: Instant) {
        let state = match wish {
            Wish::Original => return,
            Wish::Off => State::Off,
            Wish::Part { step, .. } => State::Ramping { step },
        };
        match &mut self.evidence {
            Evidence::None => self.evidence = Evidence::Found { state, at: now },
            // Readings may come before the data plane has said what it holds. A guard that has decided nothing yet
            // goes on from there; it must not take a storm that is held off for none.
            Evidence::Guard {
                guard, itself: false, ..
            } => **guard = Guard::resume(*guard.settings(), state, now),
            // What this watch has decided by itself is newer than what was found.
            Evidence::Guard { .. } | Evidence::Found { .. } => return,
        }
        self.since = now;
        "found in the data plane, set by an earlier controller".clone_into(&mut self.why);
    }

    /// Takes a reading in.
    pub fn read(&mut self, reading: &Reading, limits: &Limits, now: Instant) -> Taken {
        if reading.age > limits.stale_after {
            return Taken::Refused(Refused::Stale);
        }
        if !reading.counts.plausible() {
            return Taken::Refused(Refused::Nonsense);
        }
        if !matches!(self.evidence, Evidence::Guard { .. }) {
            let Some(settings) = self.guards.iter().find(|guard| reading.counts.has(guard.signal)) else {
                return Taken::Refused(Refused::Missing);
            };
            let state = match self.evidence {
                Evidence::Found { state, .. } => state,
                // Algorithm 1 begins with retries off. Nothing is switched off here before anything is known.
                _ => State::On,
            };
            if state == State::On {
                "nothing speaks against retries so far".clone_into(&mut self.why);
            }
            let guard = Box::new(Guard::resume(*settings, state, now));
            self.evidence = Evidence::Guard {
                guard,
                fresh: now,
                itself: false,
            };
        }
        let Evidence::Guard { guard, fresh, itself } = &mut self.evidence else {
            return Taken::Refused(Refused::Missing);
        };
        let signal = guard.settings().signal;
        let Some(sample) = reading.counts.sample(signal) else {
            return Taken::Refused(Refused::Missing);
        };
        *fresh = now;
        self.last = Some(Seen {
            at: now,
            value: reading.counts.value(signal),
            calls: reading.counts.calls,
        });
        let Some(decision) = guard.feed(&sample, now) else {
            return Taken::Noted;
        };
        *itself = true;
        self.since = now;
        self.why = decision.reason.to_string();
        Taken::Decided(decision)
    }

    /// Time passes. True where the last decision has held for as long as it may without fresh data; the wish is
    /// then the user's own configuration, and a signal is chosen anew when data comes back.
    pub fn tick(&mut self, limits: &Limits, now: Instant) -> bool {
        let fresh = match &self.evidence {
            Evidence::None => return false,
            Evidence::Found { at, .. } => *at,
            Evidence::Guard { fresh, .. } => *fresh,
        };
        if now.since(fresh) < limits.hold {
            return false;
        }
        let changed = self.wish() != Wish::Original;
        self.evidence = Evidence::None;
        if changed {
            self.since = now;
        }
        self.why = format!("no fresh data for {} s", limits.hold.as_secs());
        changed
    }

    /// Forgets everything, as when another controller takes over.
    pub fn forget(&mut self, now: Instant) {
        *self = Self::new(std::mem::take(&mut self.guards), now);
    }

    /// What shall be true of the target's retries.
    #[must_use]
    pub fn wish(&self) -> Wish {
        let (state, share) = match &self.evidence {
            Evidence::None => return Wish::Original,
            Evidence::Found { state, .. } => (*state, self.share_of(*state)),
            Evidence::Guard { guard, .. } => (guard.state(), guard.share()),
        };
        match state {
            State::On => Wish::Original,
            State::Off => Wish::Off,
            State::Ramping { step } => Wish::Part { step, share },
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
        match &self.evidence {
            Evidence::Guard { guard, .. } => Some(guard),
            _ => None,
        }
    }

    /// Whether fresh data has been missing for longer than data may be old: the last decision holds.
    #[must_use]
    pub fn holds(&self, limits: &Limits, now: Instant) -> bool {
        match &self.evidence {
            Evidence::None => false,
            Evidence::Found { .. } => true,
            Evidence::Guard { fresh, .. } => now.since(*fresh) > limits.stale_after.min(limits.hold),
        }
    }

    /// The reason of the present wish, in a sentence.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Since when the wish is what it is.
    #[must_use]
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// The last reading.
    #[must_use]
    pub const fn last(&self) -> Option<&Seen> {
        self.last.as_ref()
    }
}
