//! The end of an attempt: every part learns of it.

use std::time::Duration;

use super::{
    Change, Target, note,
    permit::{AttemptKind, Permit},
};
use crate::{
    breaker,
    guard::{self, Guard},
    limiter::{End, Ended},
    outcome::{Failure, FailureKind, Outcome},
    time::Instant,
};

impl Target {
    /// An attempt has ended. Every part learns of it; the permit is used up.
    #[inline(always)]
    pub(crate) fn settle(&mut self, permit: &mut Permit, ends: Instant, outcome: &Outcome, now: Instant) {
        let failure = outcome.failure();
        if failure.is_some_and(|failure| failure.kind == FailureKind::Cancelled) {
            return self.abandon(permit);
        }
        permit.give_back();
        self.bulkhead.release();
        match failure {
            None => {
                if self.listens {
                    self.tell(permit, ends, None, now);
                }
            }
            Some(failure) => self.settle_failure(permit, ends, failure, now),
        }
    }

    /// The same for a failure. A function of its own, so that the copy of [`Target::tell`] for a success has no branch for failures.
    #[inline(never)]
    fn settle_failure(&mut self, permit: &Permit, ends: Instant, failure: &Failure, now: Instant) {
        if self.listens {
            self.tell(permit, ends, Some(failure), now);
        }
        let again = permit.kind != AttemptKind::First;
        self.gate.on_failure(failure, permit.criticality, again, now);
    }

    /// Tells the parts that a policy may leave off of the end of an attempt. Always inlined: its callers know whether it
    /// failed.
    #[inline(always)]
    fn tell(&mut self, permit: &Permit, ends: Instant, failure: Option<&Failure>, now: Instant) {
        let rejected = failure.is_some_and(|failure| failure.rejection);
        let started = permit.started;
        let latency = now.nanos_since(started);
        let allowed =
            (permit.kind == AttemptKind::First && ends != Instant::NEVER).then(|| ends.nanos_since(started));
        let timed_out = failure.is_some_and(|failure| failure.kind == FailureKind::Timeout);
        let weight = self.pace.on_end(failure.is_none(), latency, allowed, now);
        // A probe of a target that is down is no evidence of load.
        let speaks = !permit.is_probe();
        let below = failure.is_some_and(|failure| failure.hints.retried_below > 0);
        if self.bulkhead.is_adaptive() && speaks {
            self.bulkhead
                .on_latency(Duration::from_nanos(latency), rejected, now);
            let end = match failure {
                None => End::Success,
                Some(_) if timed_out && now >= ends => End::TimedOut,
                Some(_) if rejected => End::Rejected,
                Some(failure) => match failure.kind {
                    FailureKind::Unreachable | FailureKind::Quota | FailureKind::Request => End::Unrelated,
                    _ => End::Failed,
                },
            };
            let ended = Ended {
                end,
                started,
                weight,
                retries: self.guard_state(),
            };
            if self.bulkhead.on_end(&ended, &self.pace, now) {
                let clock = self.guard.as_ref().and_then(Guard::clock);
                self.bulkhead.run_experiment(&ended, clock, &self.pace, now);
            }
        }
        if let (Some(breaker), Some(pass)) = (&mut self.breaker, permit.pass) {
            let from = breaker.state();
            let end = match failure {
                Some(failure) if failure.unhealthy && failure.kind == FailureKind::Timeout => {
                    breaker::End::TimedOut
                }
                Some(failure) if failure.unhealthy && failure.kind == FailureKind::Overload => {
                    breaker::End::Rejected
                }
                Some(failure) if failure.unhealthy => breaker::End::Failed,
                _ => breaker::End::Healthy,
            };
            breaker.on_end_as(pass, end, latency, now);
            match (from, breaker.state()) {
                (breaker::State::Closed, breaker::State::Open) => self.bulkhead.on_down(),
                (breaker::State::HalfOpen, breaker::State::Closed) => self.bulkhead.on_up(),
                _ => {}
            }
            self.note_breaker(from);
        }
        if let Some(throttle) = &mut self.throttle {
            throttle.on_end(permit.criticality, rejected, now);
        }
        if let Some(budget) = &mut self.budget {
            budget.on_attempt_end(failure.is_none(), now);
        }
        if failure.is_none() {
            self.patience.on_success(latency);
            if let Some(hedge) = &mut self.hedge {
                hedge.on_success(Duration::from_nanos(latency));
            }
        }
        if let Some(guard) = &mut self.guard {
            if speaks && !below {
                let ended = guard::Ended {
                    first: permit.kind == AttemptKind::First,
                    arm: permit.arm,
                    failure,
                    quick: timed_out && self.pace.is_quick(self.bulkhead.late()),
                };
                if let Some(decision) = guard.on_attempt_end(&ended, &self.pace, now) {
                    note(&mut self.rare, Change::Guard(decision));
                }
            }
            if let Some(samples) = &mut self.samples {
                samples.on_end(permit.kind, failure.is_none(), rejected, latency);
                samples.feed(guard, now, |change| note(&mut self.rare, change));
            }
        }
    }

    /// An attempt that was given the time from its start to `ends` ran out of it, here or at a server that was told
    /// the same deadline. Whether that says anything of the target is for [`Patience`](crate::patience::Patience).
    #[cold]
    pub(crate) fn settle_timeout(
        &mut self,
        permit: &mut Permit,
        outcome: &Outcome,
        ends: Instant,
        now: Instant,
    ) {
        let given = ends.since(permit.started);
        if self
            .patience
            .is_enough(given, self.pace.enough(), &self.settings.call)
        {
            self.settle(permit, ends, outcome, now);
        } else {
            self.abandon(permit);
        }
    }

    /// The caller no longer waits for an attempt. One that has had enough time is a timeout, though the caller found it
    /// out first: callers that are less patient than the policy would otherwise never open the breaker of a target
    /// that answers nothing.
    #[cold]
    pub(crate) fn give_up(&mut self, permit: &mut Permit, now: Instant) {
        let timeout = Outcome::Failure(self.settings.call.timeout);
        self.settle_timeout(permit, &timeout, now, now);
    }

    /// An attempt was given up before it came to anything: it leaves no trace.
    pub(crate) fn abandon(&mut self, permit: &mut Permit) {
        self.end_rest();
        permit.give_back();
        self.bulkhead.release();
        if let (Some(breaker), Some(pass)) = (&mut self.breaker, permit.pass) {
            breaker.on_abandon(pass);
        }
    }
}
