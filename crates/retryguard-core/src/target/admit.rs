//! Asking for leave: to send an attempt, and to try again.

use super::{
    Target,
    permit::{Admission, AttemptKind, Permit, Queued},
};
use crate::{
    breaker::{self, Pass, WhenDown},
    budget::Charge,
    bulkhead::{Acquired, Ticket, Waiter},
    chance::Chance,
    criticality::Criticality,
    guard::{Arm, Guard},
    refusal::Refusal,
    time::Instant,
};

impl Target {
    /// Asks for leave to send an attempt, in the order that the module states. Always inlined: the caller knows the
    /// kind, and half of the questions are for one kind only; it also avoids returning the permit through memory.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        waiter: Waiter,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Admission, Refusal> {
        if kind == AttemptKind::First && self.gate.holds_first(criticality, now).is_some() {
            return Err(Refusal::RetryAfter);
        }
        if let Err(refusal) = self.look_at_breaker(now) {
            return if kind != AttemptKind::Hedge && self.waits_for_recovery(waiter, false) {
                Ok(Admission::Queued(Queued {
                    kind,
                    until: Instant::NEVER,
                }))
            } else {
                Err(refusal)
            };
        }
        if let Some(throttle) = &mut self.throttle
            && !throttle.admits(criticality, now, chance)
        {
            return Err(Refusal::Throttled);
        }
        let place = if kind == AttemptKind::Hedge {
            if self.bulkhead.try_acquire_at(now) {
                Ok(Acquired::Taken)
            } else {
                Err(Refusal::BulkheadFull)
            }
        } else {
            self.bulkhead.acquire_for(waiter, now)
        };
        match place {
            Ok(Acquired::Taken) => self.pass_breaker(kind, criticality, now).map(Admission::Sent),
            Ok(Acquired::Queued) => Ok(Admission::Queued(Queued {
                kind,
                until: Instant::NEVER,
            })),
            Err(refusal) => Err(refusal),
        }
    }

    /// Leave to send a first attempt, where none of the questions of [`Target::admit`] stands in its way. Nothing has changed
    /// where one does.
    #[inline]
    pub(crate) fn admit_at_once(&mut self, criticality: Criticality, now: Instant) -> Option<Permit> {
        self.end_rest();
        let closed = match &self.breaker {
            Some(breaker) => Some(breaker.pass_closed()?),
            None => None,
        };
        if self.hedge.is_some() || self.gate.holds_first(criticality, now).is_some() {
            return None;
        }
        if let Some(throttle) = &mut self.throttle
            && !throttle.surely_admits(criticality, now)
        {
            return None;
        }
        if !self.bulkhead.try_acquire_at(now) {
            return None;
        }
        Some(self.permit(AttemptKind::First, criticality, closed, now))
    }

    /// Whether the target as a whole has turned attempts of this kind away since one was decided.
    pub(crate) fn has_closed_to(
        &self,
        kind: AttemptKind,
        replaces: bool,
        criticality: Criticality,
        now: Instant,
    ) -> bool {
        match kind {
            AttemptKind::First => self.gate.holds_first(criticality, now).is_some(),
            AttemptKind::Retry | AttemptKind::Hedge => {
                self.gate.holds_again(criticality, now)
                    || self.gate.forbids_retries(now)
                    || !(replaces || self.retries_flow(now))
            }
        }
    }

    /// A waiting attempt has been given its place: the last question, asked again because time has passed.
    pub(crate) fn admit_granted(
        &mut self,
        queued: &Queued,
        criticality: Criticality,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        self.pass_breaker(queued.kind, criticality, now)
    }

    /// A waiting attempt gives up, whether it still stands in the queue or has just been given its place.
    pub(crate) fn leave_queue(&mut self, ticket: Ticket) {
        self.end_rest();
        if !self.bulkhead.leave(ticket) {
            self.bulkhead.release();
        }
    }

    /// Lets an attempt wait until the target is up again; false where the policy lets none wait, or too many do.
    #[cold]
    pub(crate) fn waits_for_recovery(&mut self, waiter: Waiter, front: bool) -> bool {
        match self.settings.breaker.map(|breaker| breaker.when_down) {
            Some(WhenDown::Wait { most }) => {
                let most = if waiter.inner {
                    self.bulkhead.normal().min(most)
                } else {
                    most
                };
                self.bulkhead
                    .enqueue(waiter.ticket, front, most, waiter.deadline, self.latest)
            }
            Some(WhenDown::Fail) | None => false,
        }
    }

    /// Whether calls wait because the target is down.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.breaker_state() != breaker::State::Closed && self.may_be_awaited()
    }

    /// Whether calls wait while the target is down.
    #[inline]
    pub(crate) fn may_be_awaited(&self) -> bool {
        let breaker = self.settings.breaker;
        breaker.is_some_and(|breaker| breaker.when_down != WhenDown::Fail)
    }

    #[inline]
    fn look_at_breaker(&mut self, now: Instant) -> Result<(), Refusal> {
        match &mut self.breaker {
            Some(breaker) if breaker.state() != breaker::State::Closed => {
                let from = breaker.state();
                let answer = breaker.would_admit(now);
                self.note_breaker(from);
                answer
            }
            _ => Ok(()),
        }
    }

    /// The last step: takes a probe where the breaker is half-open, and gives the place back where it refuses.
    #[inline(always)]
    fn pass_breaker(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        let pass = match &mut self.breaker {
            None => None,
            Some(breaker) => match breaker.pass_closed() {
                Some(pass) => Some(pass),
                None => self.take_probe(now)?,
            },
        };
        Ok(self.permit(kind, criticality, pass, now))
    }

    /// The permit of an attempt that is sent now, after every question was answered.
    #[inline(always)]
    fn permit(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        pass: Option<Pass>,
        now: Instant,
    ) -> Permit {
        match kind {
            AttemptKind::First => {
                if let Some(budget) = &mut self.budget {
                    budget.on_first_attempt(now);
                }
            }
            AttemptKind::Retry | AttemptKind::Hedge => {
                if let Some(samples) = &mut self.samples {
                    samples.on_retry();
                }
            }
        }
        let arm = match &mut self.guard {
            Some(guard) => {
                let arm = guard.arm(now);
                if arm != Arm::Neither {
                    guard.on_attempt(kind == AttemptKind::First, arm);
                }
                arm
            }
            None => Arm::Neither,
        };
        Permit {
            kind,
            criticality,
            started: now,
            arm,
            pass,
            given_back: false,
        }
    }

    #[cold]
    fn take_probe(&mut self, now: Instant) -> Result<Option<Pass>, Refusal> {
        let from = self.breaker_state();
        let answer = self
            .breaker
            .as_mut()
            .map(|breaker| breaker.admit(now))
            .transpose();
        self.note_breaker(from);
        if answer.is_err() {
            self.bulkhead.release();
        }
        answer
    }

    /// Whether the target as a whole allows one more retry or hedge now, and what it costs.
    #[inline]
    pub(crate) fn allow_again(
        &mut self,
        after_timeout: bool,
        at: Instant,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Option<Charge>, Refusal> {
        if self.gate.forbids_retries(now) {
            return Err(Refusal::TargetForbids);
        }
        if self.is_awaited() {
            // It waits for the recovery and is released with the others: nothing is added to the target's load.
            return Ok(None);
        }
        if self
            .guard
            .as_ref()
            .is_some_and(|guard| !guard.allows_at(at, chance))
        {
            return Err(Refusal::Guard);
        }
        if self.is_productive() {
            return Ok(None);
        }
        let seldom = self.guard.as_ref().is_some_and(Guard::fails_seldom);
        if self.measures() && self.pace.is_slow() && !seldom {
            // A queue stands, and many retries would stand in it.
            return Err(Refusal::Guard);
        }
        match &mut self.budget {
            None => Ok(None),
            Some(budget) => budget
                .withdraw(after_timeout, now)
                .map(Some)
                .ok_or(Refusal::Budget),
        }
    }

    /// Gives the cost of a retry back that was not sent.
    pub(crate) fn refund(&mut self, charge: Option<Charge>) {
        self.end_rest();
        if let (Some(budget), Some(charge)) = (&mut self.budget, charge) {
            budget.refund(charge);
        }
    }
}
