//! The default mode of the guard.
//!
//! Three lessons stand behind it. A run of consecutive samples on one side rarely comes together when
//! another controller makes the signal swing, so readings are pooled over the last few samples instead.
//! A light load gives wild readings, so a minimum of calls is needed. And retries that all come back at once
//! bring the overload back, so they return by a ramp, and fall straight back to off when the signal returns.

use std::time::Duration;

use super::{Decision, Evidence, Reason, Sample, Signal, State, read};
use crate::{ratio::Ratio, time::Instant};

/// The most samples that can be pooled.
const POOL: u8 = 16;

/// Two thresholds, a minimum of calls, a cool-down and a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hysteresis {
    /// Retries go off when the reading is above this.
    pub off_above: Ratio,
    /// They begin to come back when it is below this.
    pub on_below: Ratio,
    /// How many of the last samples are pooled into one reading; from 1 to 16.
    pub samples: u8,
    /// The calls that the pool must hold before it means anything.
    pub minimum_calls: u32,
    /// How long retries stay off at the least.
    pub cool_down: Duration,
    /// Each relapse from the ramp doubles the cool-down, up to this.
    pub cool_down_at_most: Duration,
    /// How many steps the ramp has; each lets twice the share of the one before through. Zero for none.
    pub ramp_steps: u8,
    /// How long each step lasts at the least.
    pub step_for: Duration,
    /// A target with too few calls to tell is taken for well after this time.
    pub quiet_after: Duration,
}

impl Default for Hysteresis {
    /// Off above 20 %, on below 10 %, over five samples of at least 20 calls; five seconds of cool-down
    /// doubling to a minute; back by 1/8, 1/4 and 1/2, three seconds each.
    fn default() -> Self {
        Self {
            off_above: Ratio::percent(20),
            on_below: Ratio::percent(10),
            samples: 5,
            minimum_calls: 20,
            cool_down: Duration::from_secs(5),
            cool_down_at_most: Duration::from_secs(60),
            ramp_steps: 3,
            step_for: Duration::from_secs(3),
            quiet_after: Duration::from_secs(30),
        }
    }
}

impl Hysteresis {
    /// The most steps that a ramp can have.
    pub const MOST_STEPS: u8 = 10;

    /// The share of retries that a step of the ramp lets through: half in the last, and half as much in each
    /// one before.
    #[must_use]
    pub fn share(&self, step: u8) -> Ratio {
        let halvings = self.ramp_steps.min(Self::MOST_STEPS).saturating_sub(step);
        Ratio::from_parts(Ratio::PARTS >> halvings)
    }
}

/// What the pool says.
enum Reading {
    Above(Evidence),
    Between,
    Below(Evidence),
    TooFew,
}

#[derive(Debug, Clone)]
pub(super) struct Machine {
    state: State,
    since: Instant,
    pool: [Sample; POOL as usize],
    /// How many samples the pool holds, and where the next one goes.
    held: u8,
    next: u8,
    /// How often the ramp was left for off since retries were last fully on.
    relapses: u32,
}

impl Machine {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::On,
            since: now,
            pool: [Sample::default(); POOL as usize],
            held: 0,
            next: 0,
            relapses: 0,
        }
    }

    /// A step that these rules do not have is their last one; where they have none, nothing is let through.
    pub(super) fn resume(state: State, rules: &Hysteresis, now: Instant) -> Self {
        let state = match (state, rules.ramp_steps.min(Hysteresis::MOST_STEPS).checked_sub(1)) {
            (State::Ramping { step }, Some(last)) => State::Ramping { step: step.min(last) },
            (State::Ramping { .. }, None) => State::Off,
            (state, _) => state,
        };
        Self {
            state,
            ..Self::new(now)
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    pub(super) fn feed(
        &mut self,
        sample: &Sample,
        signal: Signal,
        rules: &Hysteresis,
        now: Instant,
    ) -> Option<Decision> {
        self.push(sample);
        let age = now.since(self.since);
        let reading = self.reading(signal, rules);
        let (to, reason) = match (self.state, reading) {
            (State::On | State::Ramping { .. }, Reading::Above(evidence)) => {
                (State::Off, Reason::Above(evidence))
            }
            (State::On, _) | (_, Reading::Above(_) | Reading::Between) => return None,
            (_, Reading::TooFew) if age < rules.quiet_after => return None,
            (State::Off, _) if age < self.cool_down(rules) => return None,
            (State::Ramping { .. }, _) if age < rules.step_for => return None,
            (from, Reading::Below(evidence)) => (up(from, rules), Reason::Below(evidence)),
            (from, Reading::TooFew) => (up(from, rules), Reason::Quiet),
        };
        Some(self.enter(to, reason, now))
    }

    fn enter(&mut self, to: State, reason: Reason, now: Instant) -> Decision {
        let from = self.state;
        match (from, to) {
            (State::Ramping { .. }, State::Off) => self.relapses = self.relapses.saturating_add(1),
            (_, State::On) => self.relapses = 0,
            _ => {}
        }
        self.state = to;
        self.since = now;
        // What was read in one state says nothing about the next.
        (self.held, self.next) = (0, 0);
        Decision { from, to, reason }
    }

    /// Always over the whole ring, so that new rules that pool another number find the right samples.
    fn push(&mut self, sample: &Sample) {
        self.pool[usize::from(self.next)] = *sample;
        self.next = (self.next + 1) % POOL;
        self.held = (self.held + 1).min(POOL);
    }

    fn reading(&self, signal: Signal, rules: &Hysteresis) -> Reading {
        let mut pooled = Sample::default();
        for back in 1..=rules.samples.max(1).min(self.held) {
            pooled.add(&self.pool[usize::from((self.next + POOL - back) % POOL)]);
        }
        let share = match self.state {
            State::On => Ratio::ONE,
            State::Off => Ratio::ZERO,
            State::Ramping { step } => rules.share(step),
        };
        if pooled.calls < u64::from(rules.minimum_calls) {
            return Reading::TooFew;
        }
        let Some(reading) = read(signal, &pooled, share) else {
            // While retries are off their number is zero, which is no evidence: only the ramp shows what retries do.
            let evidence = Evidence {
                signal,
                reading: Ratio::ZERO,
                threshold: rules.on_below,
                calls: pooled.calls,
            };
            return Reading::Below(evidence);
        };
        let evidence = |threshold| Evidence {
            signal,
            reading,
            threshold,
            calls: pooled.calls,
        };
        if reading > rules.off_above {
            Reading::Above(evidence(rules.off_above))
        } else if reading < rules.on_below {
            Reading::Below(evidence(rules.on_below))
        } else {
            Reading::Between
        }
    }

    fn cool_down(&self, rules: &Hysteresis) -> Duration {
        let most = rules.cool_down_at_most.max(rules.cool_down);
        rules
            .cool_down
            .saturating_mul(1 << self.relapses.min(20))
            .min(most)
    }
}

/// One step towards on.
fn up(from: State, rules: &Hysteresis) -> State {
    let step = match from {
        State::Off => 0,
        State::Ramping { step } => step + 1,
        State::On => return State::On,
    };
    if step < rules.ramp_steps.min(Hysteresis::MOST_STEPS) {
        State::Ramping { step }
    } else {
        State::On
    }
}
