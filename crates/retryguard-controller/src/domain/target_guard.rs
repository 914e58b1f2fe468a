//! One target: readings come in, a desired state comes out.
//!
//! Around the guard stands what a guard cannot know: whether there is anything to decide from. Without fresh
//! data the last decision holds for a stated time, and then the user's own configuration is what we want, so
//! that nothing stays switched off because data stopped coming.

use retryguard_core::{
    Instant, Ratio,
    guard::{self, Guard, Hysteresis, Mode, Reason, Signal, State},
};

use crate::domain::counts::{Counts, Reading};
use crate::domain::gain::{Advice, Gain, Measurement};
use crate::domain::limits::Limits;
use crate::domain::state::RetryState;

/// The guard of one target, with what a guard cannot know.
#[derive(Debug)]
pub struct TargetGuard {
    /// The guards that it can have, in the order in which they are wanted.
    guards: Vec<guard::Settings>,
    /// The least gain for which a retry is worth sending.
    price: Ratio,
    basis: Basis,
    /// Since when the desired state is what it is.
    since: Instant,
    reason: String,
    begun: Instant,
    last: Option<LastReading>,
}

/// What the desired state rests on.
#[derive(Debug)]
enum Basis {
    /// Nothing: the user's own configuration is right. No signal is chosen yet.
    None,
    /// What was found in the data plane; no reading has come yet.
    Found { state: State, at: Instant },
    /// A guard that is fed. It has decided something by itself, or only gone on from where it began.
    Guard {
        guard: Box<Guard>,
        last_data: Instant,
        own_decision: bool,
        /// Whether retries help, where the source counts enough to say so.
        measurement: Box<Measurement>,
        advice: Advice,
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

/// A change of the desired state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange {
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// The word of the reason in metrics.
    pub word: &'static str,
    /// The reason, in a sentence with the numbers that caused it.
    pub reason: String,
}

/// What became of a reading.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadingResult {
    /// It changed the desired state.
    Decided(StateChange),
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
    /// A guard that has seen nothing and wants nothing.
    #[must_use]
    pub fn new(guards: Vec<guard::Settings>, price: Ratio, now: Instant) -> Self {
        Self {
            guards,
            price,
            basis: Basis::None,
            since: now,
            reason: "no data yet".to_owned(),
            begun: now,
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
        let price = self.price;
        match &mut self.basis {
            Basis::None => self.basis = Basis::Found { state, at: now },
            // Readings may come before the data plane has said what it holds. A guard that has decided nothing yet
            // goes on from there; it must not take a storm that is held off for none.
            Basis::Guard {
                guard,
                own_decision: false,
                measurement,
                ..
            } => {
                **guard = Guard::resume(*guard.settings(), state, now);
                **measurement = Measurement::resumed(price, now);
            }
            // What this guard has decided by itself is newer than what was found.
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
            let measurement = if state == State::On {
                Measurement::new(self.price)
            } else {
                Measurement::resumed(self.price, now)
            };
            self.basis = Basis::Guard {
                guard,
                last_data: now,
                own_decision: false,
                measurement: Box::new(measurement),
                advice: Advice::AsGuarded,
            };
        }
        let Basis::Guard {
            guard,
            last_data,
            own_decision,
            measurement,
            advice,
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
        let from = in_force(guard, *advice);
        let decision = guard.feed(&sample, now);
        *advice = advise(guard, measurement, &reading.counts, now);
        let to = in_force(guard, *advice);
        if decision.is_none() && from == to {
            return ReadingResult::Accepted;
        }
        let (word, reason) = explain(*advice, measurement, decision.map(|decision| decision.reason));
        if from == to {
            // The threshold guard alone has changed its state, under a measurement that has the last word.
            return ReadingResult::Accepted;
        }
        *own_decision = true;
        self.since = now;
        self.reason.clone_from(&reason);
        ReadingResult::Decided(StateChange {
            from,
            to,
            word,
            reason,
        })
    }

    /// The last measured gain of retries.
    #[must_use]
    pub fn gain(&self) -> Option<Gain> {
        match &self.basis {
            Basis::Guard { measurement, .. } => measurement.gain(),
            _ => None,
        }
    }

    /// When the last decision ends if no fresh data comes.
    #[must_use]
    pub fn expires(&self, limits: &Limits) -> Option<Instant> {
        let last_data = match &self.basis {
            Basis::None => return None,
            Basis::Found { at, .. } => *at,
            Basis::Guard { last_data, .. } => *last_data,
        };
        Some(last_data.after(limits.restore_after()))
    }

    /// Whether nothing is known: the user's own configuration is desired, and not because of a decision.
    #[must_use]
    pub const fn knows_nothing(&self) -> bool {
        matches!(self.basis, Basis::None)
    }

    /// Time passes. True where the last decision has held for as long as it may without fresh data; the desired state is
    /// then the user's own configuration, and a signal is chosen anew when data comes back.
    pub fn tick(&mut self, limits: &Limits, now: Instant) -> bool {
        if self.expires(limits).is_none_or(|end| now < end) {
            return false;
        }
        let changed = self.desired() != RetryState::Original;
        self.basis = Basis::None;
        if changed {
            self.since = now;
        }
        self.reason = format!("no fresh data for {} s", limits.restore_after().as_secs());
        changed
    }

    /// Forgets everything, as when another controller takes over.
    pub fn forget(&mut self, now: Instant) {
        *self = Self::new(std::mem::take(&mut self.guards), self.price, now);
    }

    /// What shall be true of the target's retries.
    #[must_use]
    pub fn desired(&self) -> RetryState {
        let (state, share) = match &self.basis {
            Basis::None => return RetryState::Original,
            Basis::Found { state, .. } => (*state, self.share_of(*state)),
            Basis::Guard { guard, advice, .. } => (in_force(guard, *advice), guard.share()),
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

    /// Whether fresh data has been missing for longer than data may be old: the last decision holds.
    #[must_use]
    pub fn holds(&self, limits: &Limits, now: Instant) -> bool {
        match &self.basis {
            Basis::None => false,
            Basis::Found { .. } => true,
            Basis::Guard { last_data, .. } => {
                now.since(*last_data) > limits.stale_after.min(limits.restore_after())
            }
        }
    }

    /// Whether there has been no fresh data for longer than a decision holds. Retries are then as the user configured them, and
    /// nothing would switch them off.
    #[must_use]
    pub fn is_blind(&self, limits: &Limits, now: Instant) -> bool {
        let last = self.last.map_or(self.begun, |last| last.at);
        now.since(last) > limits.restore_after()
    }

    /// The reason of the present desired state, in a sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Since when the desired state is what it is.
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

/// Asks the measurement, where the guard is of the kind that it complements: a threshold on rejections.
fn advise(guard: &mut Guard, measurement: &mut Measurement, counts: &Counts, now: Instant) -> Advice {
    let settings = *guard.settings();
    if settings.signal != Signal::Rejections || !matches!(settings.mode, Mode::Hysteresis(_)) {
        return Advice::AsGuarded;
    }
    // On the ramp both arms are mixed.
    let ramping = matches!(guard.state(), State::Ramping { .. });
    if ramping && measurement.is_passive() {
        return Advice::AsGuarded;
    }
    let advice = measurement.observe(counts, guard.state() == State::On, now);
    if advice == Advice::Recovered {
        *guard = Guard::resume(settings, State::On, now);
    }
    advice
}

/// The state that the guard and the measurement come to.
fn in_force(guard: &Guard, advice: Advice) -> State {
    match advice {
        Advice::AsGuarded | Advice::Recovered => guard.state(),
        Advice::On => State::On,
        Advice::Off => State::Off,
    }
}

/// The word and the sentence for a change.
fn explain(advice: Advice, measurement: &Measurement, guarded: Option<Reason>) -> (&'static str, String) {
    let gain = measurement.gain().map(|gain| {
        format!(
            "each retry adds {:.2} ± {:.2} successful calls",
            gain.value, gain.error
        )
    });
    match (advice, gain) {
        (Advice::Recovered, _) => (
            "recovered",
            "the service answers again after an outage".to_owned(),
        ),
        (Advice::On, gain) if measurement.is_productive() => (
            "productive",
            gain.unwrap_or_else(|| "almost every call succeeds by its retries".to_owned()),
        ),
        (Advice::On, _) => ("test", "a test whether retries help again".to_owned()),
        (Advice::Off, Some(gain)) if !measurement.is_measuring() => ("unproductive", gain),
        (Advice::Off, _) => (
            "measure",
            "calls succeed less than before: measured without retries".to_owned(),
        ),
        (Advice::AsGuarded, gain) => match (guarded, gain) {
            (Some(reason), _) => (word(&reason), reason.to_string()),
            (None, Some(gain)) => ("unproductive", gain),
            (None, None) => ("unproductive", "it is not clear that retries help".to_owned()),
        },
    }
}

fn word(reason: &Reason) -> &'static str {
    if matches!(reason, Reason::Above(_)) {
        "above"
    } else if matches!(reason, Reason::Below(_)) {
        "below"
    } else if matches!(reason, Reason::Quiet) {
        "quiet"
    } else {
        "other"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::gain::PRICE;
    use crate::domain::target::TargetName;

    /// A restarted controller measured retries that it found switched off as if it had switched them off itself. It had no
    /// samples from before, so that nothing could come of it, and retries stayed off for five samples more.
    #[test]
    fn retries_that_were_found_off_come_back_when_the_guard_lets_them() {
        let rules = Hysteresis {
            cool_down: Duration::from_secs(1),
            ..Hysteresis::default()
        };
        let settings = guard::Settings {
            mode: Mode::Hysteresis(rules),
            ..guard::Settings::default()
        };
        let reading = Reading {
            target: TargetName::new("reviews"),
            counts: Counts {
                calls: 100,
                rejected: Some(0),
                retries: Some(0),
                failed: Some(0),
                ..Counts::default()
            },
            age: Duration::ZERO,
        };
        // The data plane may say what it holds before the first reading, or after it.
        for found_at in [1, 2] {
            let mut guard = TargetGuard::new(vec![settings], PRICE, Instant::ZERO);
            let read = |guard: &mut TargetGuard, second| {
                guard.read(&reading, &Limits::default(), Instant::from_secs(second));
                guard.desired()
            };
            if found_at == 2 {
                assert_eq!(read(&mut guard, 1), RetryState::Original);
            }
            guard.adopt(RetryState::Off, Instant::from_secs(found_at));
            assert_eq!(guard.desired(), RetryState::Off);
            let begin = found_at + 1;
            let back = (begin..60).find(|second| read(&mut guard, *second) != RetryState::Off);
            assert!(back.is_some_and(|back| back <= begin + 1), "{back:?}");
        }
    }
}
