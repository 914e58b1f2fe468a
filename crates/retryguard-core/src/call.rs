//! One logical request: its attempts, waits and deadline.
//!
//! # The contract
//!
//! A driver makes a [`Call`], and then feeds it what happens; each input answers with a [`Step`]:
//!
//! 1. [`Call::start`], once.
//! 2. After [`Step::Send`] it sends that attempt, and reports its end with [`Call::on_outcome`].
//! 3. It calls [`Call::on_timer`] when [`Call::next_timer`] is due. A timer that comes late, early or twice
//!    does no harm: the call looks at the time it is given, not at the timer.
//! 4. After [`Step::Cancel`] it drops that attempt, and reads `next_timer` again at once.
//! 5. When the target's [`next_granted`](Target::next_granted) names the call's ticket, it calls
//!    [`Call::on_place`].
//! 6. After [`Step::Done`] it drops whatever still runs and hands the [`Verdict`] on.
//! 7. At any other point it may end the call with [`Call::abandon`]; nothing is leaked. This is a duty: a
//!    call that is dropped while it holds a permit panics in a debug build.
//!
//! # The order of decisions after a failure
//!
//! Not retryable → retried below → forbidden by the target → not idempotent → not replayable → attempts used
//! → delay too long → deadline → (the target as a whole:) gate → guard → budget. What concerns the request
//! comes first, because it is the most useful thing to be told; what is spent by asking comes last.
//!
//! A retry that has waited, for its time or for a place, meets gate and guard once more: a closed gate puts it
//! off again, and a guard that has switched off since ends the call. Neither is drawn or charged twice.

mod words;

use std::time::Duration;

use crate::{
    budget::Charge,
    bulkhead::Ticket,
    chance::Chance,
    criticality::Criticality,
    deadline::Deadline,
    hedge,
    outcome::{Failure, FailureKind, Outcome},
    ratio::Ratio,
    refusal::Refusal,
    target::{Admission, AttemptKind, Permit, Queued, Target},
    time::Instant,
};

pub use words::{Attempt, Facts, Settings, Step, Verdict};

/// One logical request.
#[derive(Debug)]
pub struct Call {
    deadline: Instant,
    criticality: Criticality,
    idempotent: bool,
    replayable: bool,
    ticket: Ticket,
    state: State,
    /// The attempt that is no hedge.
    running: Option<Running>,
    /// The hedges beside it. On the heap, because they are rare, and a call is moved with every request.
    beside: Vec<Running>,
    /// When the next hedge is due.
    hedge_at: Instant,
    /// Attempts sent so far, and how many of them were retries and hedges.
    sent: u8,
    retries: u8,
    hedges: u8,
    last_delay: Duration,
    last_failure: Option<(u8, Failure)>,
    /// What the last retry took from a quota.
    tokens: u32,
}

#[derive(Debug)]
enum State {
    Fresh,
    /// Waits for a place in the bulkhead.
    Queued {
        queued: Queued,
        charge: Option<Charge>,
        until: Instant,
    },
    /// At least one attempt runs.
    Running,
    /// Waits before a retry.
    BackingOff {
        until: Instant,
        charge: Option<Charge>,
    },
    Over,
}

#[derive(Debug)]
struct Running {
    permit: Permit,
    number: u8,
    ends: Instant,
}

impl Call {
    /// A call that has not begun.
    #[inline]
    #[must_use]
    pub fn new(facts: &Facts) -> Self {
        Self {
            deadline: facts.deadline.moment(),
            criticality: facts.criticality,
            idempotent: facts.idempotent,
            replayable: facts.replayable,
            ticket: facts.ticket,
            state: State::Fresh,
            running: None,
            beside: Vec::new(),
            hedge_at: Instant::NEVER,
            sent: 0,
            retries: 0,
            hedges: 0,
            last_delay: Duration::ZERO,
            last_failure: None,
            tokens: 0,
        }
    }

    /// Changes the name under which the call waits for a place, before it starts: for a driver that gives
    /// names out under its lock.
    #[inline]
    pub fn queue_as(&mut self, ticket: Ticket) {
        debug_assert!(
            matches!(self.state, State::Fresh),
            "a call that waits keeps its name"
        );
        self.ticket = ticket;
    }

    /// Attempts sent so far.
    #[must_use]
    pub const fn sent(&self) -> u8 {
        self.sent
    }

    /// Retries sent so far.
    #[must_use]
    pub const fn retries(&self) -> u8 {
        self.retries
    }

    /// Hedges sent so far.
    #[must_use]
    pub const fn hedges(&self) -> u8 {
        self.hedges
    }

    /// The deadline in force, the policy's included once the call has started.
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        Deadline::at(self.deadline)
    }

    /// The request cannot be sent again after all (its body turned out too long to keep). Holds for a hedge
    /// or a retry that is already decided, too.
    pub fn forbid_replay(&mut self) {
        self.replayable = false;
        self.hedge_at = Instant::NEVER;
    }

    /// When [`Call::on_timer`] is due.
    #[inline]
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        let next = match &self.state {
            State::Fresh | State::Over => Instant::NEVER,
            State::Queued { until, .. } | State::BackingOff { until, .. } => *until,
            State::Running => {
                let ends = self.under_way().map(|running| running.ends);
                ends.min().unwrap_or(Instant::NEVER).min(self.hedge_at)
            }
        };
        (next != Instant::NEVER).then_some(next)
    }

    /// Begins: sends the first attempt, waits for a place, or is refused.
    #[inline]
    pub fn start(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        debug_assert!(matches!(self.state, State::Fresh), "a call starts once");
        let now = target.clamp(now);
        if let Some(own) = target.settings().call.deadline {
            self.deadline = self.deadline.min(now.after(own));
        }
        self.send(AttemptKind::First, None, target, now, chance)
    }

    /// The attempt `number` has ended. The result of one that no longer runs is ignored.
    #[inline]
    pub fn on_outcome(
        &mut self,
        number: u8,
        outcome: &Outcome,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        let now = target.clamp(now);
        let Some(running) = self.take_running(number) else {
            return Step::Wait;
        };
        target.settle(running.permit, outcome, now);
        match outcome {
            Outcome::Success => self.succeed(number, target),
            Outcome::Failure(failure) => self.fail(number, failure, target, now, chance),
        }
    }

    /// Time has passed. Does one thing that is due; the driver reads [`Call::next_timer`] again afterwards.
    pub fn on_timer(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let now = target.clamp(now);
        if self.next_timer().is_none_or(|due| now < due) {
            return Step::Wait;
        }
        match std::mem::replace(&mut self.state, State::Running) {
            State::BackingOff { charge, .. } => self.end_back_off(charge, target, now, chance),
            State::Queued { queued, charge, .. } => {
                target.leave_queue(self.ticket);
                self.unsent(queued.kind, charge, Refusal::BulkheadTimeout, target, now, chance)
            }
            State::Running => self.on_running_timer(target, now, chance),
            state @ (State::Fresh | State::Over) => {
                self.state = state;
                Step::Wait
            }
        }
    }

    /// The target has given the call the place that it waits for.
    pub fn on_place(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let now = target.clamp(now);
        match std::mem::replace(&mut self.state, State::Running) {
            State::Queued { queued, charge, .. } => {
                if let Err(refusal) = self.still_wanted(queued.kind, target, now) {
                    target.leave_queue(self.ticket);
                    return self.unsent(queued.kind, charge, refusal, target, now, chance);
                }
                if target.has_closed_to(queued.kind, self.criticality, now) {
                    target.leave_queue(self.ticket);
                    return match queued.kind {
                        AttemptKind::Retry => self.end_back_off(charge, target, now, chance),
                        kind => self.unsent(kind, charge, Refusal::RetryAfter, target, now, chance),
                    };
                }
                match target.admit_granted(&queued, self.criticality, now) {
                    Ok(permit) => self.note_sent(permit, charge.as_ref(), target, now),
                    Err(refusal) => self.unsent(queued.kind, charge, refusal, target, now, chance),
                }
            }
            state => {
                self.state = state;
                Step::Wait
            }
        }
    }

    /// Ends the call wherever it stands. Nothing that it held is lost.
    pub fn abandon(&mut self, target: &mut Target) {
        self.drop_running(target);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Queued { charge, .. } => {
                target.leave_queue(self.ticket);
                target.refund(charge);
            }
            State::BackingOff { charge, .. } => target.refund(charge),
            State::Fresh | State::Running | State::Over => {}
        }
    }

    /// Whether the call is over: everything it held has been given back.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the call waits for a place in the bulkhead.
    #[must_use]
    pub const fn is_queued(&self) -> bool {
        matches!(self.state, State::Queued { .. })
    }

    #[inline]
    fn can_begin(&self, target: &Target, at: Instant) -> bool {
        Deadline::at(self.deadline).allows(at, target.settings().call.least_attempt)
    }

    /// What may have changed while an attempt that was decided waited: the request, the policy, the time.
    #[inline]
    fn still_wanted(&self, kind: AttemptKind, target: &Target, now: Instant) -> Result<(), Refusal> {
        if kind == AttemptKind::Retry {
            if !self.replayable {
                return Err(Refusal::NotReplayable);
            }
            if self.retries >= target.settings().call.retries {
                return Err(Refusal::AttemptsUsed);
            }
        }
        if self.can_begin(target, now) {
            Ok(())
        } else {
            Err(Refusal::Deadline)
        }
    }

    #[inline]
    fn send(
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
        match target.admit(kind, self.criticality, self.ticket, now, chance) {
            Ok(Admission::Sent(permit)) => self.note_sent(permit, charge.as_ref(), target, now),
            Ok(Admission::Queued(queued)) => {
                let until = now.after(target.queue_wait()).min(self.deadline);
                self.state = State::Queued {
                    queued,
                    charge,
                    until,
                };
                Step::Wait
            }
            Err(refusal) => self.unsent(kind, charge, refusal, target, now, chance),
        }
    }

    /// The wait before a retry is over. What the target has asked of everybody meanwhile holds for this
    /// retry too, or everything that waits would still be sent to a target that has since said "stop".
    fn end_back_off(
        &mut self,
        charge: Option<Charge>,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        let refusal = if target.gate().forbids_retries(now) {
            Refusal::TargetForbids
        } else if target.guard_share() == Ratio::ZERO {
            Refusal::Guard
        } else {
            let until = target.gate().retry_at(now, self.criticality, None, now, chance);
            if until <= now {
                return self.send(AttemptKind::Retry, charge, target, now, chance);
            }
            if self.can_begin(target, until) {
                self.state = State::BackingOff { until, charge };
                return Step::Wait;
            }
            Refusal::Deadline
        };
        self.unsent(AttemptKind::Retry, charge, refusal, target, now, chance)
    }

    /// Notes an attempt that is sent now. Its charge is spent.
    #[inline]
    fn note_sent(&mut self, permit: Permit, charge: Option<&Charge>, target: &Target, now: Instant) -> Step {
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
        let ends = Deadline::at(self.deadline).bound(now, target.settings().call.attempt_timeout);
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
        } else {
            debug_assert!(self.running.is_none(), "only a hedge runs beside another");
            self.running = Some(running);
        }
        self.state = State::Running;
        Step::Send(Attempt { number, kind, ends })
    }

    /// An attempt was decided and is not sent.
    #[cold]
    fn unsent(
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
            self.state = State::Running;
            return Step::Wait;
        }
        self.finish(refusal, target, now, chance)
    }

    #[inline]
    fn succeed(&mut self, number: u8, target: &mut Target) -> Step {
        self.drop_running(target);
        target.on_call_end(true, self.tokens);
        self.state = State::Over;
        Step::Done(Verdict::Success { number })
    }

    #[cold]
    fn fail(
        &mut self,
        number: u8,
        failure: &Failure,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        self.last_failure = Some((number, *failure));
        if self.under_way().next().is_some() {
            // Another attempt still runs and may succeed: no reason to send a third.
            return Step::Wait;
        }
        match self.plan_retry(failure, target, now, chance) {
            Ok((until, charge)) if until <= now => self.send(AttemptKind::Retry, charge, target, now, chance),
            Ok((until, charge)) => {
                self.state = State::BackingOff { until, charge };
                Step::Wait
            }
            Err(refusal) => self.finish(refusal, target, now, chance),
        }
    }

    /// Decides whether there is a retry and when, in the order that the module states.
    fn plan_retry(
        &mut self,
        failure: &Failure,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<(Instant, Option<Charge>), Refusal> {
        let rules = &target.settings().call;
        if !failure.retryable {
            return Err(Refusal::NotRetryable);
        }
        if failure.hints.retried_below > 0 && !rules.retry_retried {
            return Err(Refusal::RetriedBelow);
        }
        if failure.hints.do_not_retry {
            return Err(Refusal::TargetForbids);
        }
        if !self.idempotent && !failure.hints.never_sent {
            return Err(Refusal::NotIdempotent);
        }
        if !self.replayable {
            return Err(Refusal::NotReplayable);
        }
        if self.retries >= rules.retries || self.sent == u8::MAX {
            return Err(Refusal::AttemptsUsed);
        }
        let retry = u32::from(self.retries) + 1;
        let delay = rules
            .backoff
            .delay(retry, self.last_delay, chance)
            .ok_or(Refusal::DelayTooLong)?;
        let own = failure.hints.retry_after;
        let at = target
            .gate()
            .retry_at(now.after(delay), self.criticality, own, now, chance);
        if !self.can_begin(target, at) {
            return Err(Refusal::Deadline);
        }
        let charge = target.allow_again(failure.kind == FailureKind::Timeout, now, chance)?;
        self.last_delay = delay;
        Ok((at, charge))
    }

    fn on_running_timer(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let late = self.under_way().filter(|running| running.ends <= now);
        let Some(number) = late.map(|running| running.number).min() else {
            return self.hedge(target, now, chance);
        };
        let timeout = target.settings().call.timeout;
        match self.on_outcome(number, &Outcome::Failure(timeout), target, now, chance) {
            Step::Wait => Step::Cancel(number),
            // The timed-out attempt is replaced at once: the driver drops it when it sends the new one, as
            // nothing else runs.
            step => step,
        }
    }

    /// Sends a hedge if everything that a retry needs speaks for it.
    fn hedge(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        self.hedge_at = Instant::NEVER;
        // The policy may have changed, and the target may have asked to be left alone, since this was set.
        let wanted = self.sent < u8::MAX
            && target.hedge().is_some_and(|hedge| self.hedges < hedge.most())
            && !target.gate().holds_again(self.criticality, now);
        if !wanted || !self.can_begin(target, now) {
            return Step::Wait;
        }
        match target.allow_again(false, now, chance) {
            Ok(charge) => self.send(AttemptKind::Hedge, charge, target, now, chance),
            Err(_) => Step::Wait,
        }
    }

    #[cold]
    fn finish(
        &mut self,
        refusal: Refusal,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        self.drop_running(target);
        target.on_call_end(false, self.tokens);
        self.state = State::Over;
        let told = self
            .last_failure
            .and_then(|(_, failure)| failure.hints.retry_after);
        let retry_after = match told {
            Some(wait) => Some(target.gate().jittered(wait, chance)),
            None => target.retry_after(refusal, self.criticality, now, chance),
        };
        Step::Done(match self.last_failure {
            None => Verdict::Refused { refusal, retry_after },
            Some((number, failure)) => Verdict::Failure {
                number,
                failure,
                refusal,
                retry_after,
            },
        })
    }

    #[inline]
    fn under_way(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().chain(&self.beside)
    }

    #[inline]
    fn take_running(&mut self, number: u8) -> Option<Running> {
        if self.running.as_ref().is_some_and(|it| it.number == number) {
            return self.running.take();
        }
        let index = self.beside.iter().position(|it| it.number == number)?;
        Some(self.beside.swap_remove(index))
    }

    #[inline]
    fn drop_running(&mut self, target: &mut Target) {
        if let Some(running) = self.running.take() {
            target.abandon(running.permit);
        }
        while let Some(running) = self.beside.pop() {
            target.abandon(running.permit);
        }
    }
}
