//! Clean calls while the target is at rest.
//!
//! Most calls are one attempt that succeeds, while no part of the target has anything to decide. Every such call does the same
//! to the counts of the parts. So it is counted once, here, and the parts receive the counts later, all at once:
//! before anything else happens to the target, or when the first of them begins a new bucket of time. For the parts
//! the result is the same as if they had been notified of each call.
//!
//! What depends on the time that an attempt took is still told at once: the averages of the pace, of an adaptive limit and
//! of a breaker that waits for silence.

use std::time::Duration;

use super::{
    Target,
    permit::{AttemptKind, Permit},
};
use crate::{
    breaker::Breaker,
    criticality::Criticality,
    guard::{Arm, Guard},
    limiter::{End, Ended},
    time::{Instant, nanos},
};

/// On the heap: only a driver that calls [`Target::open`] has it.
#[derive(Clone, Default)]
pub(super) struct Rest(Option<Box<RestState>>);

/// Present since the target was last found at rest.
#[derive(Clone)]
struct RestState {
    /// The rest is over then, or as soon as something else happens; [`Instant::ZERO`] where it is over.
    until: Instant,
    /// How many attempts may be under way.
    places: u32,
    /// Whether a part has to be notified of each success.
    follows: bool,
    /// The rules for each call, in nanoseconds; the largest number where there is no bound.
    deadline: u64,
    least_attempt: u64,
    attempt_timeout: u64,
    /// First attempts that have begun and that have succeeded, and that the parts do not know of.
    begun: u32,
    ended: [u32; Criticality::ALL.len()],
}

/// The longest rest: counts of 32 bits cannot overflow in this time.
const LONGEST: Duration = Duration::from_secs(1);

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whether the target was found at rest is no state of its own: it is looked for again when it is needed.
        let unknown = self
            .0
            .as_deref()
            .map_or((0, [0; 4]), |state| (state.begun, state.ended));
        f.debug_tuple("Rest").field(&unknown).finish()
    }
}

impl Rest {
    /// Whether nothing but clean calls has happened since the target was found at rest.
    #[inline]
    fn is_known(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.until != Instant::ZERO)
    }

    #[inline]
    fn lasts(&mut self, now: Instant) -> Option<&mut RestState> {
        self.0.as_deref_mut().filter(|state| now < state.until)
    }
}

impl Target {
    /// Leave to send the first attempt of a call while the target is at rest, which is looked for where it is not known; with
    /// the deadline of the call and the end of the attempt, the policy's included. `None` where the target is not at rest or has
    /// no place, or where too little time is left; nothing has happened then.
    #[inline(always)]
    pub(crate) fn open_at_rest(
        &mut self,
        criticality: Criticality,
        deadline: Instant,
        timeout: Option<Duration>,
        now: Instant,
    ) -> Option<(Permit, Instant, Instant)> {
        if self.rest.lasts(now).is_none() && !self.comes_to_rest(now) {
            return None;
        }
        let state = self.rest.lasts(now)?;
        let after = |nanos: u64| Instant::from_nanos(now.as_nanos().saturating_add(nanos));
        let deadline = deadline.min(after(state.deadline));
        if deadline != Instant::NEVER && (now >= deadline || after(state.least_attempt) > deadline) {
            return None;
        }
        let timeout = timeout.map_or(state.attempt_timeout, nanos);
        if !self.bulkhead.take_at_rest(state.places, now) {
            return None;
        }
        state.begun += 1;
        let permit = Permit {
            kind: AttemptKind::First,
            criticality,
            started: now,
            arm: Arm::Neither,
            pass: self.breaker.as_ref().and_then(Breaker::pass_closed),
            given_back: false,
        };
        Some((permit, deadline, after(timeout).min(deadline)))
    }

    /// The first attempt of a call has succeeded. False where the target is not at rest; nothing has happened then.
    #[inline(always)]
    pub(crate) fn settle_at_rest(&mut self, permit: &mut Permit, ends: Instant, now: Instant) -> bool {
        let current = match (&self.breaker, permit.pass) {
            (Some(breaker), Some(pass)) => breaker.is_current(pass),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let Some(state) = self.rest.lasts(now) else {
            return false;
        };
        if !current || permit.arm != Arm::Neither {
            return false;
        }
        self.latest = now;
        permit.give_back();
        self.bulkhead.release();
        if !self.listens {
            return true;
        }
        state.ended[permit.criticality.index()] += 1;
        let started = permit.started;
        let latency = now.nanos_since(started);
        let allowed = (ends != Instant::NEVER).then(|| ends.nanos_since(started));
        let weight = self.pace.on_end(true, latency, allowed, now);
        if state.follows {
            let ended = Ended {
                end: End::Success,
                started,
                weight,
                retries: self.guard_state(),
            };
            if self.bulkhead.on_end(&ended, &self.pace, now) {
                let clock = self.guard.as_ref().and_then(Guard::clock);
                self.bulkhead.run_experiment(&ended, clock, &self.pace, now);
            }
            if let Some(breaker) = &mut self.breaker
                && breaker.follows_each_end()
            {
                breaker.on_healthy_end(now);
            }
            if let Some(guard) = &mut self.guard {
                guard.on_clean_end(&self.pace);
            }
        }
        self.patience.on_success(latency);
        true
    }

    /// Whether a driver has something to carry out: a change to be told, or a call that waits and may have been given a place.
    /// Never while the target is at rest.
    #[inline]
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.rest.is_known() && (self.has_changes() || self.waiting() > 0)
    }

    /// Tells the parts of the clean calls that they do not know of. Comes before everything else that happens to the target.
    #[inline]
    pub(super) fn end_rest(&mut self) {
        if self
            .rest
            .0
            .as_ref()
            .is_some_and(|state| state.until != Instant::ZERO)
        {
            self.tell_of_clean_calls();
        }
    }

    #[cold]
    fn tell_of_clean_calls(&mut self) {
        let Some(state) = &mut self.rest.0 else { return };
        state.until = Instant::ZERO;
        let begun = std::mem::take(&mut state.begun);
        let ended = std::mem::take(&mut state.ended);
        let all = ended.iter().sum();
        if let Some(breaker) = &mut self.breaker {
            breaker.on_healthy_ends(all);
        }
        if let Some(throttle) = &mut self.throttle {
            throttle.on_successes(&ended);
        }
        if let Some(budget) = &mut self.budget {
            budget.on_clean_calls(begun, all);
        }
        if let Some(samples) = &mut self.samples {
            samples.on_successes(all);
        }
    }

    /// Looks whether the target is at rest.
    #[cold]
    fn comes_to_rest(&mut self, now: Instant) -> bool {
        self.end_rest();
        let Some((until, places)) = self.rests_until(now) else {
            return false;
        };
        let follows = self.bulkhead.is_adaptive()
            || self.breaker.as_ref().is_some_and(Breaker::follows_each_end)
            || self.guard.as_ref().is_some_and(Guard::follows_each_end);
        let rules = &self.settings.call;
        let state = RestState {
            until,
            places,
            follows,
            deadline: rules.deadline.map_or(u64::MAX, nanos),
            least_attempt: nanos(rules.least_attempt),
            attempt_timeout: rules.attempt_timeout.map_or(u64::MAX, nanos),
            begun: 0,
            ended: [0; Criticality::ALL.len()],
        };
        match &mut self.rest.0 {
            Some(known) => **known = state,
            none => *none = Some(Box::new(state)),
        }
        now < until
    }

    /// Until when clean calls change nothing but counts, if nothing else happens, and how many may be under way.
    fn rests_until(&mut self, now: Instant) -> Option<(Instant, u32)> {
        if self.hedge.is_some() || self.has_changes() || !self.gate.is_open(now) {
            return None;
        }
        let places = self.bulkhead.places_at_rest()?;
        let mut until = now.after(LONGEST);
        if let Some(guard) = &self.guard {
            until = until.min(guard.rests_until()?);
        }
        if let Some(samples) = &self.samples {
            until = until.min(samples.rests_until()?);
        }
        if let Some(breaker) = &mut self.breaker {
            until = until.min(breaker.rests_until(now)?);
        }
        if let Some(throttle) = &mut self.throttle {
            until = until.min(throttle.rests_until(now)?);
        }
        if let Some(budget) = &mut self.budget {
            until = until.min(budget.rests_until(now));
        }
        Some((until, places))
    }
}
