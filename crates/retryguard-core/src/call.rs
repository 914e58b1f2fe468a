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
//! 7. At any other point it may end the call with [`Call::abandon`], or with [`Call::give_up`] where the caller no
//!    longer waits; nothing is leaked. This is a duty: a call that is dropped while it holds a permit panics in a
//!    debug build.
//!
//! # The order of decisions after a failure
//!
//! Not retryable → retried below → forbidden by the target → not idempotent → not replayable → attempts used
//! → delay too long → deadline → (the target as a whole:) gate → guard → budget. What concerns the request
//! comes first, because it is the most useful thing to be told; what is spent by asking comes last.
//!
//! A retry that has waited, for its time or for a place, meets gate and guard once more: a closed gate puts it
//! off again, and a guard that has switched off since ends the call. Neither is drawn or charged twice.

mod end;
mod first;
mod send;
mod words;

use crate::{
    budget::Charge,
    bulkhead::Ticket,
    chance::Chance,
    criticality::Criticality,
    deadline::Deadline,
    outcome::{Failure, FailureKind, Outcome},
    refusal::Refusal,
    target::{AttemptKind, Permit, Queued, Target},
    time::Instant,
};

pub use crate::rules::Settings;
pub use first::FirstAttempt;
pub use words::{Attempt, Facts, Overrides, Step, Verdict};

/// One logical request.
#[derive(Debug)]
pub struct Call {
    deadline: Instant,
    criticality: Criticality,
    idempotent: bool,
    replayable: bool,
    /// Whether it is made while a request is served.
    inner: bool,
    /// Whether the retry that waits takes the place of an attempt that reached nothing, or of a probe.
    replaces: bool,
    overrides: Overrides,
    ticket: Ticket,
    state: State,
    /// The attempt that is not a hedge.
    running: Option<Running>,
    /// The hedges beside it. On the heap, because they are rare, and a call is moved with every request.
    beside: Vec<Running>,
    /// When the next hedge is due.
    hedge_at: Instant,
    /// When the timer is due: the end of a wait, or of the attempt that ends first, or the next hedge. Kept, because it
    /// is asked for after every input.
    due: Instant,
    /// Attempts sent so far, and how many of them were retries and hedges.
    sent: u8,
    retries: u8,
    hedges: u8,
    /// In nanoseconds.
    last_delay: u64,
    /// The last attempt that failed, and how; its number means nothing where none has.
    failed: u8,
    last_failure: Option<Failure>,
    /// What the retry that waits has been charged. Not part of the state, because most retries are not charged, and an
    /// empty charge need not be carried about.
    charge: Option<Charge>,
    /// What the last retry took from a quota.
    tokens: u32,
}

#[derive(Debug)]
enum State {
    Fresh,
    /// Waits for a place in the bulkhead.
    Queued(Queued),
    /// At least one attempt runs.
    Running,
    /// Waits before a retry.
    BackingOff,
    Over,
}

#[derive(Debug)]
struct Running {
    permit: Permit,
    number: u8,
    ends: Instant,
}

impl Running {
    #[inline(always)]
    fn settle(&mut self, outcome: &Outcome, target: &mut Target, now: Instant) {
        match outcome {
            Outcome::Failure(failure) if failure.kind == FailureKind::Timeout => {
                target.settle_timeout(&mut self.permit, outcome, self.ends, now);
            }
            _ => target.settle(&mut self.permit, self.ends, outcome, now),
        }
    }
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
            inner: false,
            overrides: Overrides {
                retries: None,
                attempt_timeout: None,
            },
            ticket: facts.ticket,
            state: State::Fresh,
            running: None,
            beside: Vec::new(),
            hedge_at: Instant::NEVER,
            due: Instant::NEVER,
            sent: 0,
            retries: 0,
            hedges: 0,
            last_delay: 0,
            replaces: false,
            failed: 0,
            last_failure: None,
            charge: None,
            tokens: 0,
        }
    }

    /// The call is made while a request is served: it holds that request's worker, so that only few may wait.
    #[inline]
    #[must_use]
    pub const fn within_request(mut self) -> Self {
        self.inner = true;
        self
    }

    /// The request has rules of its own.
    #[inline]
    #[must_use]
    pub const fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// The name under which the call waits for a place.
    #[inline]
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Attempts sent so far.
    #[inline]
    #[must_use]
    pub const fn sent(&self) -> u8 {
        self.sent
    }

    /// Retries sent so far.
    #[inline]
    #[must_use]
    pub const fn retries(&self) -> u8 {
        self.retries
    }

    /// Hedges sent so far.
    #[inline]
    #[must_use]
    pub const fn hedges(&self) -> u8 {
        self.hedges
    }

    /// The deadline in force, the policy's included once the call has started.
    #[inline]
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        Deadline::at(self.deadline)
    }

    /// The request cannot be sent again after all (its body turned out too long to keep). Holds for a hedge
    /// or a retry that is already decided, too.
    pub fn forbid_replay(&mut self) {
        self.replayable = false;
        self.hedge_at = Instant::NEVER;
        if matches!(self.state, State::Running) {
            self.due = self.first_end();
        }
    }

    /// When [`Call::on_timer`] is due.
    #[inline]
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        debug_assert!(
            match self.state {
                State::Fresh | State::Over => self.due == Instant::NEVER,
                State::Running => self.due == self.first_end(),
                State::Queued(_) | State::BackingOff => true,
            },
            "what is kept is what is due"
        );
        (self.due != Instant::NEVER).then_some(self.due)
    }

    /// Begins: sends the first attempt, waits for a place, or is refused.
    #[inline]
    pub fn start(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        debug_assert!(matches!(self.state, State::Fresh), "a call starts once");
        let now = target.clamp(now);
        if let Some(own) = target.settings().call.deadline {
            self.deadline = self.deadline.min(now.after(own));
        }
        self.begin(target, now, chance)
    }

    /// The attempt `number` has ended. The result of one that no longer runs is ignored. Always part of its caller: a
    /// step that travels through memory costs as much as what decides it.
    #[inline(always)]
    pub fn on_outcome(
        &mut self,
        number: u8,
        outcome: &Outcome,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        let now = target.clamp(now);
        // Settled where it stands: an attempt that was written a moment ago, as a refused one was, is read field by
        // field, and to move it would be to wait until it has reached memory.
        match &mut self.running {
            Some(running) if running.number == number => {
                running.settle(outcome, target, now);
                self.running = None;
            }
            _ => {
                if !self.settle_hedge(number, outcome, target, now) {
                    return Step::Wait;
                }
            }
        }
        match outcome {
            Outcome::Success => self.succeed(number, target),
            Outcome::Failure(failure) => self.fail(number, failure, target, now, chance),
        }
    }

    /// Settles a hedge that has ended. Whether it was still running.
    #[cold]
    fn settle_hedge(&mut self, number: u8, outcome: &Outcome, target: &mut Target, now: Instant) -> bool {
        let Some(index) = self.beside.iter().position(|it| it.number == number) else {
            return false;
        };
        self.beside[index].settle(outcome, target, now);
        self.beside.swap_remove(index);
        true
    }

    /// Time has passed. Does one thing that is due; the driver reads [`Call::next_timer`] again afterwards.
    #[inline]
    pub fn on_timer(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let now = target.clamp(now);
        if self.next_timer().is_none_or(|due| now < due) {
            return Step::Wait;
        }
        // Asked first: the end of a wait is what most timers are for.
        if matches!(self.state, State::BackingOff) {
            self.state = State::Running;
            if self.sent == 0 {
                return self.begin(target, now, chance);
            }
            let charge = self.charge.take();
            return self.end_back_off(charge, target, now, chance);
        }
        match std::mem::replace(&mut self.state, State::Running) {
            State::Queued(queued) if now < queued.until => {
                self.wait_in_queue(queued, target, now);
                Step::Wait
            }
            State::Queued(queued) => {
                let charge = self.charge.take();
                target.leave_queue(self.ticket);
                self.unsent(queued.kind, charge, Refusal::BulkheadTimeout, target, now, chance)
            }
            State::Running => self.on_running_timer(target, now, chance),
            state @ (State::Fresh | State::BackingOff | State::Over) => {
                self.state = state;
                Step::Wait
            }
        }
    }

    /// The target has given the call the place that it waits for.
    pub fn on_place(&mut self, target: &mut Target, now: Instant, chance: &mut impl Chance) -> Step {
        let now = target.clamp(now);
        match std::mem::replace(&mut self.state, State::Running) {
            State::Queued(queued) => {
                let charge = self.charge.take();
                if let Err(refusal) = self.still_wanted(queued.kind, target, now) {
                    target.leave_queue(self.ticket);
                    return self.unsent(queued.kind, charge, refusal, target, now, chance);
                }
                if target.has_closed_to(queued.kind, self.replaces, self.criticality, now) {
                    target.leave_queue(self.ticket);
                    return match queued.kind {
                        AttemptKind::Retry => self.end_back_off(charge, target, now, chance),
                        kind => self.unsent(kind, charge, Refusal::RetryAfter, target, now, chance),
                    };
                }
                match target.admit_granted(&queued, self.criticality, now) {
                    Ok(permit) => self.note_sent(permit, charge.as_ref(), target, now),
                    Err(_) if target.is_awaited() && target.waits_for_recovery(self.waiter(), true) => {
                        self.keep(charge);
                        self.wait_in_queue(queued, target, now);
                        Step::Wait
                    }
                    Err(refusal) => self.unsent(queued.kind, charge, refusal, target, now, chance),
                }
            }
            state => {
                self.state = state;
                Step::Wait
            }
        }
    }

    /// Ends the call because its caller no longer waits for it. As [`Call::abandon`], but an attempt that has had
    /// enough time to be answered counts as a timeout (see `patience.rs`).
    pub fn give_up(&mut self, target: &mut Target, now: Instant) {
        let now = target.clamp(now);
        for running in self.running.iter_mut().chain(&mut self.beside) {
            target.give_up(&mut running.permit, now);
        }
        self.running = None;
        self.beside.clear();
        self.abandon(target);
    }

    /// Ends the call wherever it stands. Nothing that it held is lost, and no attempt leaves a trace.
    pub fn abandon(&mut self, target: &mut Target) {
        self.drop_running(target);
        self.due = Instant::NEVER;
        if matches!(self.state, State::Queued(_)) {
            target.leave_queue(self.ticket);
        }
        target.refund(self.charge.take());
        self.state = State::Over;
    }

    /// Whether the call is over: everything it held has been given back.
    #[inline]
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the call waits for a place in the bulkhead.
    #[inline]
    #[must_use]
    pub const fn is_queued(&self) -> bool {
        matches!(self.state, State::Queued(_))
    }

    #[inline]
    fn can_begin(&self, target: &Target, at: Instant) -> bool {
        Deadline::at(self.deadline).allows(at, target.settings().call.least_attempt)
    }

    /// When the first of what runs is due: the end of an attempt, or the next hedge.
    fn first_end(&self) -> Instant {
        let ends = self.under_way().map(|running| running.ends);
        ends.fold(self.hedge_at, Instant::min)
    }

    #[inline]
    fn under_way(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().chain(&self.beside)
    }

    #[inline]
    fn drop_running(&mut self, target: &mut Target) {
        if let Some(running) = &mut self.running {
            target.abandon(&mut running.permit);
            self.running = None;
        }
        while let Some(mut running) = self.beside.pop() {
            target.abandon(&mut running.permit);
        }
    }
}
