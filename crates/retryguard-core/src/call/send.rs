//! Sending an attempt: the last questions, and what is noted of it.

use super::{Attempt, Call, Running, State, Step};
use crate::{
    budget::Charge,
    bulkhead::Waiter,
    chance::Chance,
    deadline::Deadline,
    hedge,
    refusal::Refusal,
    target::{Admission, AttemptKind, Permit, Queued, Target},
    time::Instant,
};

impl Call {
    /// What may have changed while an attempt that was decided waited: the request, the policy, the time.
    #[inline]
    pub(super) fn still_wanted(
        &self,
        kind: AttemptKind,
        target: &Target,
        now: Instant,
    ) -> Result<(), Refusal> {
        if kind == AttemptKind::Retry {
            if !self.replayable {
                return Err(Refusal::NotReplayable);
            }
            if !self.replaces && self.retries >= target.most_retries(self.overrides.retries) {
                return Err(Refusal::AttemptsUsed);
            }
        }
        if self.can_begin(target, now) {
            Ok(())
        } else {
            Err(Refusal::Deadline)
        }
    }

    /// Sends an attempt of a kind that the caller knows. Always part of its caller, as is what it asks.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        kind: AttemptKind,
        charge: Option<Charge>,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        if let Err(refusal) = self.still_wanted(kind, target, now) {
            return self.unsent(kind, charge, refusal, target, now, chance);
        }
        match target.admit(kind, self.criticality, self.waiter(), now, chance) {
            Ok(Admission::Sent(permit)) => self.note_sent(permit, charge.as_ref(), target, now),
            Ok(Admission::Queued(queued)) => {
                self.keep(charge);
                let until = target.queue_until(self.deadline, now);
                self.wait_in_queue(Queued { until, ..queued }, target, now);
                Step::Wait
            }
            Err(refusal) => self.unsent(kind, charge, refusal, target, now, chance),
        }
    }

    /// Sends the first attempt, or lets it wait until the target that asked to be left alone may be asked again.
    #[inline(always)]
    pub(super) fn begin(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        if target.may_be_awaited()
            && !self.inner
            && target.gate().holds_first(self.criticality, now).is_some()
        {
            return self.hold_first(target, now, chance);
        }
        self.send(AttemptKind::First, None, target, now, chance)
    }

    #[cold]
    fn hold_first(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let held = target
            .gate()
            .holds_first(self.criticality, now)
            .unwrap_or_default();
        let at = now.after(target.gate().jittered(held, chance));
        if self.can_begin(target, at.after(target.least_margin())) {
            self.back_off(at, None);
            return Step::Wait;
        }
        self.send(AttemptKind::First, None, target, now, chance)
    }

    /// Sends a hedge, or a retry that waits for nothing: the rare ones, which share one copy of [`Call::send`].
    #[inline(never)]
    pub(super) fn send_at_once(
        &mut self,
        kind: AttemptKind,
        charge: Option<Charge>,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        self.send(kind, charge, target, now, chance)
    }

    /// The wait before a retry is over. What the target has asked of all clients meanwhile holds for this
    /// retry too, or everything that waits would still be sent to a target that has since said "stop".
    #[inline(always)]
    pub(super) fn end_back_off(
        &mut self,
        charge: Option<Charge>,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        let refusal = if target.gate().forbids_retries(now) {
            Refusal::TargetForbids
        } else if !self.replaces && !target.retries_flow(now) {
            Refusal::Guard
        } else {
            let until = target.gate().retry_at(now, self.criticality, None, now, chance);
            if until <= now {
                return self.send(AttemptKind::Retry, charge, target, now, chance);
            }
            if self.can_begin(target, until) {
                self.back_off(until, charge);
                return Step::Wait;
            }
            Refusal::Deadline
        };
        self.unsent(AttemptKind::Retry, charge, refusal, target, now, chance)
    }

    /// Waits before a retry.
    #[inline]
    pub(super) fn back_off(&mut self, until: Instant, charge: Option<Charge>) {
        self.due = until;
        self.state = State::BackingOff;
        self.keep(charge);
    }

    #[inline]
    pub(super) fn waiter(&self) -> Waiter {
        Waiter {
            ticket: self.ticket,
            deadline: self.deadline,
            inner: self.inner,
        }
    }

    /// Stands in the queue until its turn has come, or until it may wait no longer.
    pub(super) fn wait_in_queue(&mut self, queued: Queued, target: &Target, now: Instant) {
        self.due = queued.until.min(target.looks_again(self.ticket, now));
        self.state = State::Queued(queued);
    }

    /// Keeps the charge of a retry that waits, if there is one.
    #[inline]
    pub(super) fn keep(&mut self, charge: Option<Charge>) {
        debug_assert!(self.charge.is_none(), "only one retry waits");
        if charge.is_some() {
            self.charge = charge;
        }
    }

    /// Notes an attempt that is sent now. Its charge is spent.
    #[inline(always)]
    pub(super) fn note_sent(
        &mut self,
        permit: Permit,
        charge: Option<&Charge>,
        target: &Target,
        now: Instant,
    ) -> Step {
        let kind = permit.kind();
        self.sent += 1;
        match kind {
            AttemptKind::First => {}
            AttemptKind::Retry => self.retries += 1,
            AttemptKind::Hedge => self.hedges += 1,
        }
        if let Some(charge) = charge {
            self.tokens = charge.tokens();
        }
        let number = self.sent;
        let own = self.overrides.attempt_timeout;
        let timeout = own.or(target.settings().call.attempt_timeout);
        let ends = Deadline::at(self.deadline).bound(now, timeout);
        self.hedge_at = match target.hedge() {
            Some(hedge) if self.idempotent && self.replayable && self.hedges < hedge.most() => {
                now.after(hedge.delay())
            }
            _ => Instant::NEVER,
        };
        let running = Running { permit, number, ends };
        if kind == AttemptKind::Hedge {
            debug_assert!(
                self.beside.len() < usize::from(hedge::Settings::MOST),
                "hedges are bounded"
            );
            self.beside.push(running);
            self.due = self.first_end();
        } else {
            debug_assert!(
                self.running.is_none() && self.beside.is_empty(),
                "only a hedge runs beside another"
            );
            self.running = Some(running);
            self.due = ends.min(self.hedge_at);
        }
        self.state = State::Running;
        Step::Send(Attempt { number, kind, ends })
    }

    /// An attempt was decided and is not sent.
    #[cold]
    pub(super) fn unsent(
        &mut self,
        kind: AttemptKind,
        charge: Option<Charge>,
        refusal: Refusal,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        target.refund(charge);
        if kind == AttemptKind::Hedge {
            self.hedge_at = Instant::NEVER;
            self.due = self.first_end();
            self.state = State::Running;
            return Step::Wait;
        }
        self.finish(refusal, target, now, chance)
    }

    /// Sends a hedge if everything that a retry needs speaks for it.
    pub(super) fn hedge(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        self.hedge_at = Instant::NEVER;
        self.due = self.first_end();
        // The policy may have changed, and the target may have asked to be left alone, since this was set.
        let wanted = self.sent < u8::MAX
            && target.hedge().is_some_and(|hedge| self.hedges < hedge.most())
            && !target.gate().holds_again(self.criticality, now);
        if !wanted || !self.can_begin(target, now) {
            return Step::Wait;
        }
        match target.allow_again(false, now, now, chance) {
            Ok(charge) => self.send_at_once(AttemptKind::Hedge, charge, target, now, chance),
            Err(_) => Step::Wait,
        }
    }
}
