//! A call that has met an obstacle, a failure or the end of an attempt's time, until it is over.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use retryguard_core::{
    Call, Deadline, Failure, FailureKind, Instant, Outcome, Refusal,
    call::{Attempt, Step, Verdict},
    target::AttemptKind,
};
use tower_service::Service;

use super::{super::sending::Sending, Ended, Hedge, ResponseFuture, Troubled};
use crate::{
    error::Error,
    observer::{CallEvent, FailedAttempt},
    protocol::{self, Judge, Protocol},
    shared::{Draws, Shared, State},
};

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    /// The first attempt has ended otherwise than with a plain success.
    #[cold]
    pub(super) fn end_first(mut self: Pin<&mut Self>, result: Result<S::Response, S::Error>) -> Step {
        self.as_mut().project().first.set(Sending::Idle);
        self.as_mut().make_call();
        self.end(1, result)
    }

    /// Makes the call, which goes on from the first attempt if that was sent.
    #[cold]
    fn make_call(self: Pin<&mut Self>) {
        let this = self.project();
        if this.troubled.is_some() {
            return;
        }
        // Only a call that may wait for a place needs a name for that.
        this.facts.ticket = this.shared.with(State::ticket);
        let call = match this.opened.take() {
            Some(first) => Call::resume(this.facts, first),
            None => Call::new(this.facts),
        };
        let call = call.with_overrides(*this.overrides);
        *this.troubled = Some(Troubled::new(if *this.within_request {
            call.within_request()
        } else {
            call
        }));
    }

    /// Begins a call that meets an obstacle at once.
    #[cold]
    pub(super) fn begin(mut self: Pin<&mut Self>) -> Step {
        let opened = self.opened.is_some();
        self.as_mut().make_call();
        let this = self.project();
        if let Some(refusal) = *this.refusal {
            return Step::Done(Verdict::Refused {
                refusal,
                retry_after: None,
            });
        }
        let Some(troubled) = this.troubled else {
            return Step::Wait;
        };
        let (protocol, kept) = (&*this.protocol, &*this.kept);
        let (shared, now) = (&**this.shared, *this.told);
        let call = &mut troubled.call;
        if opened {
            return cannot_send(call, 1, AttemptKind::First, shared, now);
        }
        shared.with(|state| {
            if let Some(wait) = state.held(|| protocol.caller(kept), now) {
                return Step::Done(Verdict::Refused {
                    refusal: Refusal::RetryAfter,
                    retry_after: Some(wait),
                });
            }
            call.start(&mut state.target, now, &mut Draws(shared))
        })
    }

    /// Drives the call from its next step on.
    pub(super) fn go_on(
        mut self: Pin<&mut Self>,
        mut step: Step,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, Error<S::Error>>> {
        loop {
            step = match step {
                Step::Done(Verdict::Success { number }) => return Poll::Ready(self.succeed(number)),
                Step::Done(verdict) => return Poll::Ready(self.finish(&verdict)),
                Step::Send(attempt) => self.as_mut().send(&attempt),
                Step::Cancel(number) => self.as_mut().cancel(number),
                Step::Wait => match self.as_mut().poll_attempts(cx) {
                    Poll::Ready((number, result)) => self.as_mut().end(number, result),
                    Poll::Pending => ready!(self.as_mut().poll_waits(cx)),
                },
            };
        }
    }

    /// Polls what is under way, and says which attempt ended and how.
    fn poll_attempts(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<S, P::Attempt>> {
        let mut this = self.project();
        if let Poll::Ready(result) = this.first.as_mut().poll(cx) {
            this.first.set(Sending::Idle);
            return Poll::Ready((*this.number, result));
        }
        let Some(troubled) = this.troubled else {
            return Poll::Pending;
        };
        let hedges = &mut troubled.hedges;
        let ended =
            hedges
                .iter_mut()
                .enumerate()
                .find_map(|(index, hedge)| match hedge.sending.as_mut().poll(cx) {
                    Poll::Ready(result) => Some((index, result)),
                    Poll::Pending => None,
                });
        let Some((index, result)) = ended else {
            return Poll::Pending;
        };
        Poll::Ready((hedges.swap_remove(index).number, result))
    }

    /// Looks at the queue and at the timer.
    pub(super) fn poll_waits(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        let mut this = self.as_mut().project();
        let due = match (&*this.opened, &mut *this.troubled) {
            (Some(first), _) => (first.ends() != Instant::NEVER).then(|| first.ends()),
            (None, Some(troubled)) => {
                if troubled.call.is_queued() {
                    troubled.queued = true;
                    let shared = &**this.shared;
                    let now = shared.clock.now();
                    *this.told = now;
                    let call = &mut troubled.call;
                    let step = shared.with(|state| {
                        state
                            .poll_place(call.ticket(), cx.waker())
                            .map(|()| call.on_place(&mut state.target, now, &mut Draws(shared)))
                    });
                    if step.is_ready() {
                        return step;
                    }
                }
                troubled.call.next_timer()
            }
            (None, None) => None,
        };
        let Some(due) = due else {
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
        Poll::Ready(self.end_wait())
    }

    /// A timer has fired.
    #[cold]
    fn end_wait(mut self: Pin<&mut Self>) -> Step {
        self.as_mut().make_call();
        let this = self.project();
        let (shared, now) = (&**this.shared, *this.told);
        let Some(troubled) = this.troubled else {
            return Step::Wait;
        };
        let call = &mut troubled.call;
        let step = shared.with(|state| call.on_timer(&mut state.target, now, &mut Draws(shared)));
        // An attempt that ran out of time ends without a result: the step shows which.
        let late = match &step {
            Step::Cancel(number) => Some(*number),
            Step::Send(attempt) if attempt.kind == AttemptKind::Retry && !this.first.is_idle() => {
                Some(*this.number)
            }
            Step::Done(Verdict::Failure { number, .. })
                if !this.first.is_idle() || !troubled.hedges.is_empty() =>
            {
                Some(*number)
            }
            _ => None,
        };
        if let Some(number) = late {
            let at = now.since(*this.began);
            note_end(
                shared,
                &mut troubled.history,
                number,
                Some(FailureKind::Timeout),
                at,
            );
        }
        step
    }

    /// Sends an attempt that the machine has decided just now.
    fn send(self: Pin<&mut Self>, attempt: &Attempt) -> Step {
        let mut this = self.project();
        let Some(troubled) = this.troubled else {
            return Step::Wait;
        };
        let now = *this.told;
        let until = this.facts.deadline.moment();
        let sending = protocol::Sending {
            attempt: *attempt,
            criticality: this.facts.criticality,
            left: Deadline::at(attempt.ends).left(now),
            call_left: troubled.call.deadline().left(now),
            until: (until != Instant::NEVER).then(|| this.shared.clock.moment(until)),
        };
        let Some(request) = this.protocol.attempt(this.kept, &sending) else {
            return cannot_send(&mut troubled.call, attempt.number, attempt.kind, this.shared, now);
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
                troubled.last = None;
                this.first.set(Sending::new(this.service.clone(), request));
                *this.number = number;
            }
            AttemptKind::Hedge => {
                let sending = Box::pin(Sending::new(this.service.clone(), request));
                troubled.hedges.push(Hedge { number, sending });
            }
        }
        Step::Wait
    }

    fn cancel(self: Pin<&mut Self>, number: u8) -> Step {
        let mut this = self.project();
        if *this.number == number {
            this.first.set(Sending::Idle);
        } else if let Some(troubled) = this.troubled {
            troubled.hedges.retain(|hedge| hedge.number != number);
        }
        Step::Wait
    }

    /// Tells the machine how an attempt ended.
    fn end(self: Pin<&mut Self>, number: u8, result: Result<S::Response, S::Error>) -> Step {
        let this = self.project();
        let Some(troubled) = this.troubled else {
            return Step::Wait;
        };
        let call = &mut troubled.call;
        if !this.protocol.can_replay(this.kept) {
            call.forbid_replay();
        }
        let (protocol, kept) = (&*this.protocol, &*this.kept);
        let shared = &**this.shared;
        // Read before the lock is taken: what a program brings for it may take its time.
        let outcome = match protocol.classifier(kept) {
            Some(own) => protocol.judge(&result, own),
            None => protocol.judge(&result, &shared.policy().1.classifier),
        };
        let now = shared.clock.now();
        *this.told = now;
        let step = shared.with(|state| {
            if let Outcome::Failure(failure) = &outcome
                && failure.hints.caller_only
            {
                state.hold(failure, || protocol.caller(kept), now);
            }
            call.on_outcome(number, &outcome, &mut state.target, now, &mut Draws(shared))
        });
        let failed = outcome.failure().map(|failure| failure.kind);
        if failed.is_some() || shared.is_observed() {
            note_end(
                shared,
                &mut troubled.history,
                number,
                failed,
                now.since(*this.began),
            );
        }
        troubled.last = Some((number, result));
        step
    }
}

/// The machine was informed that the request can be sent; that it cannot is found out only now. For a hedge it may only be too
/// early, as long as the body is still on its way.
#[cold]
fn cannot_send(call: &mut Call, number: u8, kind: AttemptKind, shared: &Shared, now: Instant) -> Step {
    if kind != AttemptKind::Hedge {
        call.forbid_replay();
    }
    let outcome = Outcome::Failure(Failure::new(FailureKind::Cancelled));
    shared.with(|state| call.on_outcome(number, &outcome, &mut state.target, now, &mut Draws(shared)))
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

/// An attempt has ended: the history and the observer are updated.
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
