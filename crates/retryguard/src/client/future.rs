//! The future of a call: moves effects between the machine and the world, and decides nothing.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use retryguard_core::{
    Call, Criticality, Deadline, Failure, FailureKind, Instant, Outcome, Refusal,
    bulkhead::Ticket,
    call::{Attempt, Facts, Overrides, Step, Verdict},
    target::AttemptKind,
};
use tokio::time::Sleep;
use tower_service::Service;

use super::sending::Sending;
use crate::{
    context,
    error::Error,
    observer::{CallEvent, FailedAttempt},
    protocol::{self, Judge, Protocol, Report},
    shared::{Draws, Shared},
};

/// What a call needs to begin.
pub(super) struct Start<S, P, K> {
    pub(super) ready: S,
    pub(super) kept: K,
    pub(super) protocol: P,
    pub(super) shared: Arc<Shared>,
    /// Whether the call is made while a request is served.
    pub(super) within_request: bool,
}

pin_project! {
    /// The future of one call under a policy. The call begins, and its time runs, with the first poll;
    /// dropping it at any point gives back whatever it held.
    pub struct ResponseFuture<S, P, Request>
    where
        S: Service<P::Attempt>,
        P: Protocol<Request>,
    {
        shared: Arc<Shared>,
        protocol: P,
        call: Call,
        // Why the call is refused before it begins.
        refusal: Option<Refusal>,
        kept: P::Kept,
        service: S,
        criticality: Criticality,
        // The caller's own deadline; `NEVER` where it has none.
        caller: Instant,
        ticket: Ticket,
        began: Instant,
        // When the machine was last told something.
        told: Instant,
        // The attempt that is not a hedge, and its number.
        #[pin]
        first: Sending<S, P::Attempt>,
        number: u8,
        // Hedges are boxed: they are rare, and only they need more than one place.
        hedges: Vec<Hedge<S, P::Attempt>>,
        // The attempts that failed.
        history: Vec<FailedAttempt>,
        // The last failed result: what the caller gets if there is no better one.
        last: Option<(u8, Result<S::Response, S::Error>)>,
        queued: bool,
        stage: Stage,
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
            if *this.stage == Stage::Running {
                abandon(this.shared, this.call, this.queued.then_some(*this.ticket));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Running,
    /// The caller has its answer.
    Over,
}

#[cold]
fn abandon(shared: &Shared, call: &mut Call, queued: Option<Ticket>) {
    let now = shared.clock.now();
    shared.with(|state| {
        call.give_up(&mut state.target, now);
        if let Some(ticket) = queued {
            state.forget(ticket);
        }
    });
    shared.telemetry().on_abandon(call.sent());
    shared.notify(|| CallEvent::Abandoned {
        attempts: call.sent(),
    });
}

/// A retry or a hedge is sent.
#[cold]
fn tell_again(shared: &Shared, attempt: &Attempt) {
    tracing::debug!(
        target: "retryguard",
        name = shared.name(),
        attempt = attempt.number,
        kind = attempt.kind.as_str(),
        "attempt"
    );
}

/// A call has ended without a success.
#[cold]
fn tell_failed(shared: &Shared, verdict: &Verdict, report: &Report) {
    let (Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. }) = verdict else {
        return;
    };
    tracing::debug!(
        target: "retryguard",
        name = shared.name(),
        attempts = report.attempts,
        failure = report.failed.map(|(kind, _)| kind.as_str()),
        refusal = refusal.as_str(),
        "call failed"
    );
}

/// An attempt has ended: the history and the observer are told.
#[cold]
fn note_end(
    shared: &Shared,
    history: &mut Vec<FailedAttempt>,
    attempt: u8,
    failure: Option<FailureKind>,
    at: Duration,
) {
    if let Some(failure) = failure {
        history.push(FailedAttempt { attempt, failure, at });
    }
    shared.notify(|| CallEvent::Ended { attempt, failure, at });
}

/// The number of an attempt and what it came to.
type Ended<S, R> = (u8, Result<<S as Service<R>>::Response, <S as Service<R>>::Error>);

struct Hedge<S: Service<R>, R> {
    number: u8,
    sending: Pin<Box<Sending<S, R>>>,
}

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request>,
    S: Service<P::Attempt>,
{
    /// A call that has not begun, and that is refused when it does if there is a reason to.
    #[inline]
    pub(super) fn new(
        facts: &Facts,
        overrides: Overrides,
        refusal: Option<Refusal>,
        start: Start<S, P, P::Kept>,
    ) -> Self {
        let call = Call::new(facts).with_overrides(overrides);
        Self {
            shared: start.shared,
            protocol: start.protocol,
            call: if start.within_request {
                call.within_request()
            } else {
                call
            },
            refusal,
            kept: start.kept,
            service: start.ready,
            criticality: facts.criticality,
            caller: facts.deadline.moment(),
            ticket: facts.ticket,
            began: Instant::ZERO,
            told: Instant::ZERO,
            first: Sending::Idle,
            number: 0,
            hedges: Vec::new(),
            history: Vec::new(),
            last: None,
            queued: false,
            stage: Stage::Fresh,
            sleep: None,
            sleep_until: Instant::NEVER,
        }
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
        let mut step = Step::Wait;
        if self.stage == Stage::Fresh {
            step = self.as_mut().begin();
        }
        loop {
            step = match step {
                Step::Done(verdict) => return Poll::Ready(self.finish(&verdict)),
                Step::Send(attempt) => self.as_mut().send(&attempt),
                Step::Cancel(number) => self.as_mut().cancel(number),
                Step::Wait => match self.as_mut().poll_attempts(cx) {
                    Poll::Ready((number, mut result)) => {
                        let step = self.as_mut().end(number, &result);
                        if let Step::Done(Verdict::Success { number }) = step {
                            let report = self.as_mut().succeed(number, &mut result);
                            // Mapped here, so that a response is moved once.
                            return Poll::Ready(result.map_err(|error| self.answered(error, &report)));
                        }
                        *self.as_mut().project().last = Some((number, result));
                        step
                    }
                    Poll::Pending => ready!(self.as_mut().poll_waits(cx)),
                },
            };
        }
    }
}

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    /// Starts the call, and sends its first attempt if it may be sent at once.
    #[inline]
    fn begin(mut self: Pin<&mut Self>) -> Step {
        let this = self.as_mut().project();
        *this.stage = Stage::Running;
        let now = this.shared.clock.now();
        *this.began = now;
        *this.told = now;
        this.shared.telemetry().on_start();
        if let Some(refusal) = *this.refusal {
            return Step::Done(Verdict::Refused {
                refusal,
                retry_after: None,
            });
        }
        let (call, ticket) = (this.call, this.ticket);
        let (protocol, kept) = (&*this.protocol, &*this.kept);
        let shared = &**this.shared;
        let step = shared.with(|state| {
            state.follow_wall_clock(&shared.clock, now);
            if let Some(wait) = state.held(|| protocol.caller(kept), now) {
                return Step::Done(Verdict::Refused {
                    refusal: Refusal::RetryAfter,
                    retry_after: Some(wait),
                });
            }
            *ticket = state.ticket();
            call.queue_as(*ticket);
            call.start(&mut state.target, now, &mut Draws(shared))
        });
        match step {
            Step::Send(attempt) => self.send(&attempt),
            step => step,
        }
    }

    /// Polls what is under way, and says which attempt ended and how.
    #[inline]
    fn poll_attempts(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<S, P::Attempt>> {
        let mut this = self.project();
        if let Poll::Ready(result) = this.first.as_mut().poll(cx) {
            this.first.set(Sending::Idle);
            return Poll::Ready((*this.number, result));
        }
        let ended = this.hedges.iter_mut().enumerate().find_map(|(index, hedge)| {
            match hedge.sending.as_mut().poll(cx) {
                Poll::Ready(result) => Some((index, result)),
                Poll::Pending => None,
            }
        });
        let Some((index, result)) = ended else {
            return Poll::Pending;
        };
        Poll::Ready((this.hedges.swap_remove(index).number, result))
    }

    /// Looks at the queue and at the timer.
    fn poll_waits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        let mut this = self.project();
        let call = this.call;
        if call.is_queued() {
            *this.queued = true;
            let (shared, ticket) = (&**this.shared, *this.ticket);
            let now = shared.clock.now();
            *this.told = now;
            let step = shared.with(|state| {
                state
                    .poll_place(ticket, cx.waker())
                    .map(|()| call.on_place(&mut state.target, now, &mut Draws(shared)))
            });
            if step.is_ready() {
                return step;
            }
        }
        let Some(due) = call.next_timer() else {
            return Poll::Pending;
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
            return Poll::Pending;
        };
        ready!(sleep.poll(cx));
        // tokio's timers have the grain of a millisecond and may fire early by less than that: the time
        // that was asked for is the time that is told.
        let now = this.shared.clock.now().max(due);
        *this.told = now;
        *this.sleep_until = Instant::NEVER;
        let shared = &**this.shared;
        let step = shared.with(|state| call.on_timer(&mut state.target, now, &mut Draws(shared)));
        // An attempt that ran out of time ends without a result: the step shows which.
        let late = match &step {
            Step::Cancel(number) => Some(*number),
            Step::Send(attempt) if attempt.kind == AttemptKind::Retry && !this.first.is_idle() => {
                Some(*this.number)
            }
            Step::Done(Verdict::Failure { number, .. })
                if !this.first.is_idle() || !this.hedges.is_empty() =>
            {
                Some(*number)
            }
            _ => None,
        };
        if let Some(number) = late {
            note_end(
                shared,
                this.history,
                number,
                Some(FailureKind::Timeout),
                now.since(*this.began),
            );
        }
        Poll::Ready(step)
    }

    /// Sends an attempt that the machine has decided just now.
    #[inline]
    fn send(self: Pin<&mut Self>, attempt: &Attempt) -> Step {
        let mut this = self.project();
        let now = *this.told;
        let sending = protocol::Sending {
            attempt: *attempt,
            criticality: *this.criticality,
            left: Deadline::at(attempt.ends).left(now),
            call_left: this.call.deadline().left(now),
            until: (*this.caller != Instant::NEVER).then(|| this.shared.clock.moment(*this.caller)),
        };
        let Some(request) = this.protocol.attempt(this.kept, &sending) else {
            // The machine was told that the request can be sent; that it cannot is found out only now. For a
            // hedge it may only be too early, as long as the body is still on its way.
            let call = this.call;
            if attempt.kind != AttemptKind::Hedge {
                call.forbid_replay();
            }
            let outcome = Outcome::Failure(Failure::new(FailureKind::Cancelled));
            let shared = &**this.shared;
            return shared.with(|state| {
                call.on_outcome(
                    attempt.number,
                    &outcome,
                    &mut state.target,
                    now,
                    &mut Draws(shared),
                )
            });
        };
        let number = attempt.number;
        this.shared.notify(|| CallEvent::Sent {
            attempt: number,
            kind: attempt.kind,
            at: now.since(*this.began),
        });
        if attempt.kind != AttemptKind::First {
            tell_again(this.shared, attempt);
        }
        match attempt.kind {
            AttemptKind::First => {
                // The service that was found ready; its clones must be found ready again.
                let future = this.service.call(request);
                this.first.set(Sending::Running { future });
                *this.number = number;
            }
            AttemptKind::Retry => {
                // The failed response is no longer wanted, and would keep its connection or its stream from the retry:
                // an HTTP/2 peer that allows one stream at a time would never answer it.
                *this.last = None;
                this.first.set(Sending::new(this.service.clone(), request));
                *this.number = number;
            }
            AttemptKind::Hedge => {
                let sending = Box::pin(Sending::new(this.service.clone(), request));
                this.hedges.push(Hedge { number, sending });
            }
        }
        Step::Wait
    }

    fn cancel(self: Pin<&mut Self>, number: u8) -> Step {
        let mut this = self.project();
        if *this.number == number {
            this.first.set(Sending::Idle);
        } else {
            this.hedges.retain(|hedge| hedge.number != number);
        }
        Step::Wait
    }

    /// Tells the machine how an attempt ended.
    #[inline]
    fn end(self: Pin<&mut Self>, number: u8, result: &Result<S::Response, S::Error>) -> Step {
        let this = self.project();
        let call = this.call;
        if !this.protocol.can_replay(this.kept) {
            call.forbid_replay();
        }
        let now = this.shared.clock.now();
        *this.told = now;
        let (protocol, kept) = (&*this.protocol, &*this.kept);
        let shared = &**this.shared;
        let mut failed = None;
        let step = shared.with(|state| {
            let own = protocol.classifier(kept);
            let outcome = protocol.judge(result, own.unwrap_or(&state.policy().classifier));
            if let Outcome::Failure(failure) = &outcome {
                failed = Some(failure.kind);
                if failure.hints.caller_only {
                    state.hold(failure, || protocol.caller(kept), now);
                }
            }
            call.on_outcome(number, &outcome, &mut state.target, now, &mut Draws(shared))
        });
        if failed.is_some() || shared.is_observed() {
            note_end(shared, this.history, number, failed, now.since(*this.began));
        }
        step
    }

    /// Concludes a call whose result the machine calls a success.
    #[inline]
    fn succeed(mut self: Pin<&mut Self>, number: u8, result: &mut Result<S::Response, S::Error>) -> Report {
        let report = self.as_mut().conclude(&Verdict::Success { number });
        if report.retries > 0 {
            self.shared.tell_gain();
        }
        if let Ok(response) = result {
            self.protocol.conclude(response, &report);
        }
        report
    }

    /// An error that the judge reads as an answer like any other ("not found", say).
    #[cold]
    fn answered(self: Pin<&mut Self>, error: S::Error, report: &Report) -> Error<S::Error> {
        Error::Failed {
            error,
            attempts: report.attempts,
            refusal: Refusal::NotRetryable,
            retry_after: None,
            history: std::mem::take(self.project().history),
        }
    }

    /// Turns any other verdict into what the caller gets.
    #[cold]
    fn finish(mut self: Pin<&mut Self>, verdict: &Verdict) -> Result<S::Response, Error<S::Error>> {
        let report = self.as_mut().conclude(verdict);
        let this = self.project();
        let ends_here = match verdict {
            Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } => refusal.is_of_target(),
            Verdict::Success { .. } => false,
        };
        let layers = report
            .retried_below
            .saturating_add(u8::from(report.retries > 0 || ends_here));
        if layers > 0 {
            match this.protocol.context(this.kept) {
                Some(carried) => carried.note_retried(layers),
                None => context::note_retried(layers),
            }
        }
        tell_failed(this.shared, verdict, &report);
        let now = *this.told;
        if let Some(balance) = this.shared.with(|state| state.target.budget_balance(now)) {
            this.shared.telemetry().on_budget(balance);
        }
        this.shared.tell_gain();
        let last = this.last.take();
        let history = std::mem::take(this.history);
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
            (Verdict::Failure { number, .. }, Some((of, Ok(mut response)))) if *number == of => {
                this.protocol.conclude(&mut response, &report);
                Ok(response)
            }
            (Verdict::Failure { number, refusal, .. }, Some((of, Err(error)))) if *number == of => {
                Err(Error::Failed {
                    error,
                    attempts,
                    refusal: *refusal,
                    retry_after,
                    history,
                })
            }
            (Verdict::Failure { refusal, .. }, _) => Err(Error::TimedOut {
                attempts,
                refusal: *refusal,
                retry_after,
                history,
            }),
            // Only the end of an attempt is a success, and that has its own way out.
            (Verdict::Success { .. }, _) => {
                debug_assert!(false, "a success without a result");
                Err(Error::TimedOut {
                    attempts,
                    refusal: Refusal::AttemptsUsed,
                    retry_after,
                    history,
                })
            }
        }
    }

    /// The call is over: nothing is left to be given back, and the telemetry is told.
    #[inline]
    fn conclude(self: Pin<&mut Self>, verdict: &Verdict) -> Report {
        let this = self.project();
        *this.stage = Stage::Over;
        if *this.queued {
            let ticket = *this.ticket;
            this.shared.with(|state| state.forget(ticket));
        }
        let report = report(verdict, this.call);
        let took = this.told.nanos_since(*this.began);
        this.shared.telemetry().on_verdict(verdict, &report, took);
        this.shared.notify(|| CallEvent::Finished {
            attempts: report.attempts,
            refusal: match verdict {
                Verdict::Success { .. } => None,
                Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } => Some(*refusal),
            },
            at: Duration::from_nanos(took),
        });
        report
    }
}

#[inline]
fn report(verdict: &Verdict, call: &Call) -> Report {
    let mut report = Report {
        attempts: call.sent(),
        retries: call.retries(),
        hedges: call.hedges(),
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
