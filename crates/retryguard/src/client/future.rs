//! The future of a call: moves effects between the machine and the world, and decides nothing.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use retryguard_core::{
    Call, Criticality, Instant, Outcome, Refusal,
    bulkhead::Ticket,
    call::{Attempt, Facts, Step, Verdict},
    target::AttemptKind,
};
use tokio::time::Sleep;
use tower_service::Service;

use super::sending::Sending;
use crate::{
    clock::Random,
    context,
    error::Error,
    protocol::{self, Judge, Protocol, Report},
    shared::Shared,
};

/// What a call needs to begin.
pub(super) struct Start<S, P, K> {
    pub(super) ready: S,
    pub(super) kept: K,
    pub(super) protocol: P,
    pub(super) shared: Arc<Shared>,
}

pin_project! {
    /// The future of one call under a policy. Dropping it at any point gives back whatever it held.
    pub struct ResponseFuture<S, P, Request>
    where
        S: Service<P::Attempt>,
        P: Protocol<Request>,
    {
        shared: Arc<Shared>,
        protocol: P,
        call: Option<Call>,
        // What the machine said and the world has not yet heard.
        step: Step,
        kept: P::Kept,
        service: S,
        criticality: Criticality,
        ticket: Ticket,
        began: Instant,
        // When the machine was last told something.
        ended: Instant,
        // The attempt that is no hedge, and its number.
        #[pin]
        first: Sending<S, P::Attempt>,
        number: u8,
        // Hedges are boxed: they are rare, and only they need more than one place.
        hedges: Vec<Hedge<S, P::Attempt>>,
        // The last failed result: what the caller gets if there is no better one.
        last: Option<(u8, Result<S::Response, S::Error>)>,
        queued: bool,
        // The caller has its answer.
        finished: bool,
        // Made only when an attempt has to be waited for.
        #[pin]
        sleep: Option<Sleep>,
        sleep_until: Instant,
    }

    impl<S, P, Request> PinnedDrop for ResponseFuture<S, P, Request>
    where
        S: Service<P::Attempt>,
        P: Protocol<Request>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.finished {
                return;
            }
            let (ticket, queued) = (*this.ticket, *this.queued);
            if let Some(call) = this.call {
                this.shared.with(|state| {
                    call.abandon(&mut state.target);
                    if queued {
                        state.forget(ticket);
                    }
                });
            }
            this.shared.telemetry().on_abandon(this.call.as_ref().map_or(0, Call::sent));
        }
    }
}

struct Hedge<S: Service<R>, R> {
    number: u8,
    sending: Pin<Box<Sending<S, R>>>,
}

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request>,
    S: Service<P::Attempt>,
{
    #[inline]
    pub(super) fn started(
        call: Call,
        step: Step,
        facts: &Facts,
        now: Instant,
        start: Start<S, P, P::Kept>,
    ) -> Self {
        let mut future = Self::idle(Some(call), step, facts.criticality, facts.ticket, now, start);
        // The usual case is sent here and not in the first poll, with the service that was found ready.
        if let Step::Send(attempt) = step {
            let sending = sending(&attempt, facts.criticality, future.call.as_ref(), now);
            if let Some(request) = future.protocol.attempt(&mut future.kept, &sending) {
                future.first = Sending::Running {
                    future: future.service.call(request),
                };
                future.number = attempt.number;
                future.step = Step::Wait;
            }
        }
        future
    }

    /// A call that was refused before it began.
    pub(super) fn refused(refusal: Refusal, start: Start<S, P, P::Kept>) -> Self {
        let step = Step::Done(Verdict::Refused {
            refusal,
            retry_after: None,
        });
        Self::idle(
            None,
            step,
            Criticality::default(),
            Ticket(0),
            Instant::ZERO,
            start,
        )
    }

    #[inline]
    fn idle(
        call: Option<Call>,
        step: Step,
        criticality: Criticality,
        ticket: Ticket,
        began: Instant,
        start: Start<S, P, P::Kept>,
    ) -> Self {
        start.shared.telemetry().on_start();
        Self {
            shared: start.shared,
            protocol: start.protocol,
            call,
            step,
            kept: start.kept,
            service: start.ready,
            criticality,
            ticket,
            began,
            ended: began,
            first: Sending::Idle,
            number: 0,
            hedges: Vec::new(),
            last: None,
            queued: false,
            finished: false,
            sleep: None,
            sleep_until: Instant::NEVER,
        }
    }
}

fn sending(
    attempt: &Attempt,
    criticality: Criticality,
    call: Option<&Call>,
    now: Instant,
) -> protocol::Sending {
    protocol::Sending {
        attempt: *attempt,
        criticality,
        left: call.and_then(|call| call.deadline().left(now)),
    }
}

impl<S, P, Request> Future for ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    type Output = Result<S::Response, Error<S::Error>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match std::mem::replace(self.as_mut().project().step, Step::Wait) {
                Step::Done(verdict) => return Poll::Ready(self.finish(&verdict)),
                Step::Send(attempt) => {
                    self.as_mut().send(&attempt);
                    continue;
                }
                Step::Cancel(number) => {
                    self.as_mut().cancel(number);
                    continue;
                }
                Step::Wait => {}
            }
            if !(self.as_mut().poll_attempts(cx) || self.as_mut().poll_waits(cx)) {
                return Poll::Pending;
            }
        }
    }
}

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    /// Polls what is under way. True if something ended, so that there is a new step.
    #[inline]
    fn poll_attempts(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let this = self.as_mut().project();
        if let Poll::Ready(result) = this.first.poll(cx) {
            let number = *this.number;
            self.as_mut().project().first.set(Sending::Idle);
            self.end(number, result);
            return true;
        }
        let ended = this.hedges.iter_mut().enumerate().find_map(|(index, hedge)| {
            match hedge.sending.as_mut().poll(cx) {
                Poll::Ready(result) => Some((index, result)),
                Poll::Pending => None,
            }
        });
        let Some((index, result)) = ended else {
            return false;
        };
        let hedge = this.hedges.swap_remove(index);
        self.end(hedge.number, result);
        true
    }

    /// Looks at the timer and at the queue. True if there is a new step.
    fn poll_waits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let mut this = self.project();
        let Some(call) = this.call else { return false };
        if call.is_queued() {
            *this.queued = true;
            let (shared, ticket) = (&**this.shared, *this.ticket);
            let now = shared.clock.now();
            let step = shared.with(|state| {
                state
                    .poll_place(ticket, cx.waker())
                    .is_ready()
                    .then(|| call.on_place(&mut state.target, now, &mut Random))
            });
            if let Some(step) = step {
                *this.step = step;
                return true;
            }
        }
        let Some(due) = call.next_timer() else {
            return false;
        };
        if *this.sleep_until != due || this.sleep.is_none() {
            *this.sleep_until = due;
            let moment = this.shared.clock.moment(due);
            match this.sleep.as_mut().as_pin_mut() {
                Some(sleep) => sleep.reset(moment),
                None => this.sleep.set(Some(tokio::time::sleep_until(moment))),
            }
        }
        let Some(sleep) = this.sleep.as_pin_mut() else {
            return false;
        };
        if sleep.poll(cx).is_pending() {
            return false;
        }
        // tokio's timers have the grain of a millisecond and may fire early by less than that: the time
        // that was asked for is the time that is told.
        let now = this.shared.clock.now().max(due);
        *this.step = this
            .shared
            .with(|state| call.on_timer(&mut state.target, now, &mut Random));
        *this.ended = now;
        *this.sleep_until = Instant::NEVER;
        true
    }

    /// Sends an attempt that the machine has decided.
    fn send(self: Pin<&mut Self>, attempt: &Attempt) {
        let mut this = self.project();
        let now = this.shared.clock.now();
        let sending = sending(attempt, *this.criticality, this.call.as_ref(), now);
        let Some(request) = this.protocol.attempt(this.kept, &sending) else {
            // The machine was told that the request can be sent; that it cannot is found out only now.
            if let Some(call) = this.call {
                call.forbid_replay();
                let outcome = Outcome::Failure(retryguard_core::Failure::new(
                    retryguard_core::FailureKind::Cancelled,
                ));
                let number = attempt.number;
                *this.step = this
                    .shared
                    .with(|state| call.on_outcome(number, &outcome, &mut state.target, now, &mut Random));
            }
            return;
        };
        let fresh = Sending::new(this.service.clone(), request);
        if attempt.kind == AttemptKind::Hedge {
            this.hedges.push(Hedge {
                number: attempt.number,
                sending: Box::pin(fresh),
            });
        } else {
            this.first.set(fresh);
            *this.number = attempt.number;
        }
    }

    fn cancel(self: Pin<&mut Self>, number: u8) {
        let mut this = self.project();
        if *this.number == number {
            this.first.set(Sending::Idle);
        } else {
            this.hedges.retain(|hedge| hedge.number != number);
        }
    }

    /// Tells the machine how an attempt ended.
    #[inline]
    fn end(self: Pin<&mut Self>, number: u8, result: Result<S::Response, S::Error>) {
        let this = self.project();
        let Some(call) = this.call else { return };
        if !this.protocol.can_replay(this.kept) {
            call.forbid_replay();
        }
        let now = this.shared.clock.now();
        let protocol = &*this.protocol;
        let step = this.shared.with(|state| {
            let outcome = protocol.judge(&result, &state.policy().classifier);
            call.on_outcome(number, &outcome, &mut state.target, now, &mut Random)
        });
        *this.step = step;
        *this.ended = now;
        *this.last = Some((number, result));
    }

    /// Turns the verdict into what the caller gets.
    #[inline]
    fn finish(self: Pin<&mut Self>, verdict: &Verdict) -> Result<S::Response, Error<S::Error>> {
        let this = self.project();
        *this.finished = true;
        if *this.queued {
            let ticket = *this.ticket;
            this.shared.with(|state| state.forget(ticket));
        }
        let counts = this
            .call
            .as_ref()
            .map_or((0, 0, 0), |call| (call.sent(), call.retries(), call.hedges()));
        let report = report(verdict, counts);
        if let Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } = verdict
            && (report.retries > 0 || refusal.is_protection())
        {
            context::note_retried(report.retried_below.saturating_add(1));
        }
        let telemetry = this.shared.telemetry();
        telemetry.on_verdict(verdict, &report, this.ended.since(*this.began));
        if !matches!(verdict, Verdict::Success { .. }) {
            let now = *this.ended;
            if let Some(balance) = this.shared.with(|state| state.target.budget_balance(now)) {
                telemetry.on_budget(balance);
            }
        }
        let last = this.last.take();
        let Report {
            attempts,
            retry_after,
            ..
        } = report;
        match (verdict, last) {
            (Verdict::Refused { refusal, .. }, _) => Err(Error::Refused {
                refusal: *refusal,
                retry_after,
            }),
            (Verdict::Success { number } | Verdict::Failure { number, .. }, Some((of, Ok(mut response))))
                if *number == of =>
            {
                this.protocol.conclude(&mut response, &report);
                Ok(response)
            }
            (Verdict::Failure { number, refusal, .. }, Some((of, Err(error)))) if *number == of => {
                Err(Error::Failed {
                    error,
                    attempts,
                    refusal: *refusal,
                    retry_after,
                })
            }
            (Verdict::Failure { refusal, .. }, _) => Err(Error::TimedOut {
                attempts,
                refusal: *refusal,
                retry_after,
            }),
            // An error that the judge reads as an answer like any other ("not found", say).
            (Verdict::Success { .. }, Some((_, Err(error)))) => Err(Error::Failed {
                error,
                attempts,
                refusal: Refusal::NotRetryable,
                retry_after,
            }),
            // The machine names an attempt whose result was just put there.
            (Verdict::Success { .. }, _) => {
                debug_assert!(false, "a success without a result");
                Err(Error::TimedOut {
                    attempts,
                    refusal: Refusal::AttemptsUsed,
                    retry_after,
                })
            }
        }
    }
}

fn report(verdict: &Verdict, (attempts, retries, hedges): (u8, u8, u8)) -> Report {
    let mut report = Report {
        attempts,
        retries,
        hedges,
        failed: None,
        retried_below: 0,
        retry_after: None,
    };
    match verdict {
        Verdict::Success { .. } => {}
        Verdict::Failure {
            failure,
            refusal,
            retry_after,
            ..
        } => {
            report.failed = Some((failure.kind, *refusal));
            report.retried_below = failure.hints.retried_below;
            report.retry_after = *retry_after;
        }
        Verdict::Refused { retry_after, .. } => report.retry_after = *retry_after,
    }
    report
}
