//! The end of an attempt, and what follows from it: success, another attempt or the end of the call.

use super::{Call, State, Step, Verdict};
use crate::{
    budget::Charge,
    chance::Chance,
    outcome::{Failure, FailureKind, Outcome},
    refusal::Refusal,
    target::{AttemptKind, Target},
    time::Instant,
};

/// So many retries that take the place of an attempt which reached nothing are sent almost at once: another replica may
/// answer. Further ones wait, because nothing may answer for a while.
const AT_ONCE: u8 = 2;

impl Call {
    #[inline]
    pub(super) fn succeed(&mut self, number: u8, target: &mut Target) -> Step {
        self.drop_running(target);
        target.on_call_end(true, self.tokens);
        self.over();
        Step::Done(Verdict::Success { number })
    }

    #[inline]
    pub(super) fn fail(
        &mut self,
        number: u8,
        failure: &Failure,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        self.failed = number;
        self.last_failure = Some(*failure);
        if self.running.is_some() || !self.beside.is_empty() {
            // Another attempt still runs and may succeed: no reason to send a third.
            self.due = self.first_end();
            return Step::Wait;
        }
        match self.plan_retry(failure, target, now, chance) {
            Ok((until, charge)) if until <= now => {
                self.send_at_once(AttemptKind::Retry, charge, target, now, chance)
            }
            Ok((until, charge)) => {
                self.back_off(until, charge);
                Step::Wait
            }
            Err(refusal) => self.finish(refusal, target, now, chance),
        }
    }

    #[inline]
    fn over(&mut self) {
        self.state = State::Over;
        self.due = Instant::NEVER;
    }

    /// Decides whether there is a retry and when, in the order that the module states.
    #[inline]
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
        if failure.hints.retried_below > 0 && !rules.retry_retried && !target.is_awaited() {
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
        // An attempt that reached nothing was no load: the retry takes its place.
        let replaces = target.can_replace(failure);
        let most = if replaces {
            self.overrides.retries.unwrap_or(rules.retries)
        } else {
            target.most_retries(self.overrides.retries)
        };
        if self.retries >= most || self.sent == u8::MAX {
            return Err(Refusal::AttemptsUsed);
        }
        // Where it is clear that retries help, waiting ever longer would only use the deadline up.
        let productive = replaces || target.is_productive();
        let retry = if productive {
            1
        } else {
            u32::from(self.retries) + 1
        };
        let delay = rules
            .backoff
            .delay_nanos(retry, self.last_delay, chance)
            .ok_or(Refusal::DelayTooLong)?;
        let delay = chance.delay(u32::from(self.retries) + 1, delay);
        let delay = if replaces && self.retries < AT_ONCE {
            delay.min(target.short_delay(delay) / 8)
        } else if productive {
            delay.min(target.short_delay(delay))
        } else {
            delay
        };
        // A call that is made while a request is served holds that request's worker, so its retry is not put off.
        let waits = if self.inner {
            delay
        } else {
            delay.max(target.spread(self.deadline, now, chance))
        };
        let own = failure.hints.retry_after;
        let wanted = Instant::from_nanos(now.as_nanos().saturating_add(waits));
        let at = target.gate().retry_at(wanted, self.criticality, own, now, chance);
        if !self.can_begin(target, at) {
            return Err(Refusal::Deadline);
        }
        if self.inner && target.measures() && now.until(at) > target.inner_wait() {
            return Err(Refusal::RetryAfter);
        }
        let later = if self.inner || replaces {
            at
        } else {
            target.put_off(at, chance)
        };
        let at = if self.can_begin(target, later.after(target.margin())) {
            later
        } else {
            at
        };
        let charge = if replaces {
            None
        } else {
            target.allow_again(failure.kind == FailureKind::Timeout, at, now, chance)?
        };
        // So it does where the attempt was a probe of a target that is down: the call has not been tried yet.
        self.replaces = replaces || target.is_awaited();
        self.last_delay = delay;
        Ok((at, charge))
    }

    #[inline(never)]
    pub(super) fn on_running_timer(
        &mut self,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
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

    #[cold]
    pub(super) fn finish(
        &mut self,
        refusal: Refusal,
        target: &mut Target,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Step {
        self.drop_running(target);
        target.on_call_end(false, self.tokens);
        self.over();
        let told = self.last_failure.and_then(|failure| failure.hints.retry_after);
        let retry_after = match told {
            Some(wait) => Some(target.gate().jittered(wait, chance)),
            None => target.retry_after(refusal, self.criticality, now, chance),
        };
        Step::Done(match self.last_failure {
            None => Verdict::Refused { refusal, retry_after },
            Some(failure) => Verdict::Failure {
                number: self.failed,
                failure,
                refusal,
                retry_after,
            },
        })
    }
}
