//! The way of most calls: the first attempt is sent at once and succeeds. Such a call needs no [`Call`].
//!
//! A driver may ask [`Target::open`] before it makes a call. Where nothing stands in the way, the first attempt is sent
//! without one: its success is reported with [`FirstAttempt::succeed`]. Everything else needs a call, which
//! [`Call::resume`] makes in the state that [`Call::start`] would have left it in. For the target both ways are the same.

use super::{Call, Facts, Overrides, Running, State};
use crate::{
    deadline::Deadline,
    outcome::Outcome,
    target::{Permit, Target},
    time::Instant,
};

/// A first attempt that was sent without a [`Call`]. Given back exactly once, like the permit that it holds.
#[derive(Debug)]
#[must_use = "a first attempt succeeds, is given up, or is resumed by a call"]
pub struct FirstAttempt {
    permit: Permit,
    deadline: Instant,
    ends: Instant,
}

impl Target {
    /// Sends the first attempt of a call where nothing stands in its way. `None` where a call has to be made and
    /// started; nothing has happened then. Always part of its caller, so that the answer need not travel through memory.
    #[inline(always)]
    pub fn open(&mut self, facts: &Facts, overrides: &Overrides, now: Instant) -> Option<FirstAttempt> {
        let now = self.now(now);
        let deadline = facts.deadline.moment();
        match self.open_at_rest(facts.criticality, deadline, overrides.attempt_timeout, now) {
            Some((permit, deadline, ends)) => Some(FirstAttempt {
                permit,
                deadline,
                ends,
            }),
            None => self.open_in_trouble(facts, overrides, now),
        }
    }

    /// The same where the target is not at rest.
    #[inline(never)]
    fn open_in_trouble(
        &mut self,
        facts: &Facts,
        overrides: &Overrides,
        now: Instant,
    ) -> Option<FirstAttempt> {
        let rules = &self.settings().call;
        let deadline = match rules.deadline {
            Some(own) => facts.deadline.moment().min(now.after(own)),
            None => facts.deadline.moment(),
        };
        if !Deadline::at(deadline).allows(now, rules.least_attempt) {
            return None;
        }
        let timeout = overrides.attempt_timeout.or(rules.attempt_timeout);
        let permit = self.admit_at_once(facts.criticality, now)?;
        let ends = Deadline::at(deadline).bound(now, timeout);
        Some(FirstAttempt {
            permit,
            deadline,
            ends,
        })
    }
}

impl FirstAttempt {
    /// When its time is up.
    #[inline]
    #[must_use]
    pub const fn ends(&self) -> Instant {
        self.ends
    }

    /// The deadline of its call, the policy's included.
    #[inline]
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        Deadline::at(self.deadline)
    }

    /// It has succeeded, and its call with it.
    #[inline(always)]
    pub fn succeed(mut self, target: &mut Target, now: Instant) {
        let now = target.now(now);
        if !target.settle_at_rest(&mut self.permit, self.ends, now) {
            self.succeed_in_trouble(target, now);
        }
    }

    /// The same where the target is not at rest.
    #[inline(never)]
    fn succeed_in_trouble(mut self, target: &mut Target, now: Instant) {
        let now = target.clamp(now);
        target.settle(&mut self.permit, self.ends, &Outcome::Success, now);
        target.on_call_end(true, 0);
    }

    /// The caller no longer waits: see [`Call::give_up`].
    #[cold]
    pub fn give_up(mut self, target: &mut Target, now: Instant) {
        let now = target.clamp(now);
        target.give_up(&mut self.permit, now);
    }
}

impl Call {
    /// The call of a first attempt that was sent without one.
    #[must_use]
    pub fn resume(facts: &Facts, first: FirstAttempt) -> Self {
        let mut call = Self::new(facts);
        call.deadline = first.deadline;
        call.sent = 1;
        call.due = first.ends;
        call.state = State::Running;
        call.running = Some(Running {
            permit: first.permit,
            number: 1,
            ends: first.ends,
        });
        call
    }
}
