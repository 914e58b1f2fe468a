//! Asking for leave: to send an attempt, and to try again.

use super::{
    Target,
    permit::{Admission, AttemptKind, Permit, Queued},
};
use crate::{
    breaker::{self, Pass},
    budget::Charge,
    bulkhead::{Place, Ticket},
    chance::Chance,
    criticality::Criticality,
    ratio::Ratio,
    refusal::Refusal,
    time::Instant,
};

impl Target {
    /// Asks for leave to send an attempt, in the order that the module states. Always part of its caller, who knows the
    /// kind: half of the questions are for one kind only, and the permit need not travel through memory.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        ticket: Ticket,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Admission, Refusal> {
        if kind == AttemptKind::First && self.gate.holds_first(criticality, now).is_some() {
            return Err(Refusal::RetryAfter);
        }
        self.look_at_breaker(now)?;
        if let Some(throttle) = &mut self.throttle
            && !throttle.admits(criticality, now, chance)
        {
            return Err(Refusal::Throttled);
        }
        let place = if kind == AttemptKind::Hedge {
            if self.bulkhead.try_acquire() {
                Ok(Place::Taken)
            } else {
                Err(Refusal::BulkheadFull)
            }
        } else {
            self.bulkhead.acquire(ticket)
        };
        match place {
            Ok(Place::Taken) => self.pass_breaker(kind, criticality, now).map(Admission::Sent),
            Ok(Place::Queued) => Ok(Admission::Queued(Queued { kind })),
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the target as a whole has turned attempts of this kind away since one was decided.
    pub(crate) fn has_closed_to(&self, kind: AttemptKind, criticality: Criticality, now: Instant) -> bool {
        match kind {
            AttemptKind::First => self.gate.holds_first(criticality, now).is_some(),
            AttemptKind::Retry | AttemptKind::Hedge => {
                self.gate.holds_again(criticality, now)
                    || self.gate.forbids_retries(now)
                    || self.guard_share() == Ratio::ZERO
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
        if !self.bulkhead.leave(ticket) {
            self.bulkhead.release();
        }
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
        match kind {
            AttemptKind::First => {
                if let Some(budget) = &mut self.budget {
                    budget.on_first_attempt(now);
                }
            }
            AttemptKind::Retry | AttemptKind::Hedge => {
                self.sample.retries += u64::from(self.guard.is_some());
            }
        }
        Ok(Permit {
            kind,
            criticality,
            started: now,
            pass,
            given_back: false,
        })
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
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Option<Charge>, Refusal> {
        if self.gate.forbids_retries(now) {
            return Err(Refusal::TargetForbids);
        }
        if self.guard.as_ref().is_some_and(|guard| !guard.allows(chance)) {
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
        if let (Some(budget), Some(charge)) = (&mut self.budget, charge) {
            budget.refund(charge);
        }
    }
}
