//! The future of a call: moves effects between the machine and the world, and decides nothing.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use retryguard_core::{
    Call, Deadline, Failure, FailureKind, Instant, Outcome, Refusal,
    call::{Attempt, Facts, FirstAttempt, Overrides, Step, Verdict},
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
    shared::{Draws, Shared, State},
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
        facts: Facts,
        overrides: Overrides,
        within_request: bool,
        // Why the call is refused before it begins.
        refusal: Option<Refusal>,
        kept: P::Kept,
        service: S,
        began: Instant,
        // When the machine was last told something.
        told: Instant,
        // The first attempt, while nothing has happened but that it was sent.
        opened: Option<FirstAttempt>,
        // The attempt that is not a hedge, and its number.
        #[pin]
        first: Sending<S, P::Attempt>,
        number: u8,
        // What a call needs that does not succeed at once. On the heap, because most do.
        troubled: Option<Box<Troubled<S, P::Attempt>>>,
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
                abandon(this.shared, this.opened.take(), this.troubled.as_deref_mut());
            }
        }
    }
}

/// A call that has met an obstacle, a failure or the end of an attempt's time.
struct Troubled<S: Service<R>, R> {
    call: Call,
    queued: bool,
    hedges: Vec<Hedge<S, R>>,
    /// The attempts that failed.
    history: Vec<FailedAttempt>,
    /// The last failed result: what the caller gets if there is no better one.
    last: Option<Ended<S, R>>,
}

impl<S: Service<R>, R> Troubled<S, R> {
    fn new(call: Call) -> Box<Self> {
        Box::new(Self {
            call,
            queued: false,
            hedges: Vec::new(),
            history: Vec::new(),
            last: None,
        })
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
fn abandon<S: Service<R>, R>(
    shared: &Shared,
    opened: Option<FirstAttempt>,
    troubled: Option<&mut Troubled<S, R>>,
) {
    let now = shared.clock.now();
    let mut attempts = u8::from(opened.is_some());
    shared.with(|state| {
        if let Some(first) = opened {
            first.give_up(&mut state.target, now);
        }
        if let Some(troubled) = troubled {
            troubled.call.give_up(&mut state.target, now);
            attempts = troubled.call.sent();
            if troubled.queued {
                state.forget(troubled.call.ticket());
            }
        }
    });
    shared.telemetry().on_abandon(attempts);
    shared.notify(|| CallEvent::Abandoned { attempts });
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
        Self {
            shared: start.shared,
            protocol: start.protocol,
            facts: *facts,
            overrides,
            within_request: start.within_request,
            refusal,
            kept: start.kept,
            service: start.ready,
            began: Instant::ZERO,
            told: Instant::ZERO,
            opened: None,
            first: Sending::Idle,
            number: 0,
            troubled: None,
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
        if self.stage == Stage::Fresh && !self.as_mut().open() {
            let step = self.as_mut().begin();
            return self.go_on(step, cx);
        }
        if self.opened.is_none() {
            return self.go_on(Step::Wait, cx);
        }
        match self.as_mut().project().first.poll(cx) {
            Poll::Ready(Ok(response)) if self.protocol.succeeds(&response) => {
                Poll::Ready(Ok(self.succeed_at_once(response)))
            }
            Poll::Ready(result) => {
                let step = self.as_mut().end_first(result);
                self.go_on(step, cx)
            }
            Poll::Pending => {
                let step = ready!(self.as_mut().poll_waits(cx));
                self.go_on(step, cx)
            }
        }
    }
}

impl<S, P, Request> ResponseFuture<S, P, Request>
where
    P: Protocol<Request> + Judge<S::Response, S::Error>,
    S: Service<P::Attempt> + Clone,
{
    /// Starts the call and sends its first attempt, where nothing stands in its way. False where a call has to be made.
    #[inline]
    fn open(mut self: Pin<&mut Self>) -> bool {
        let this = self.as_mut().project();
        let shared = &**this.shared;
        *this.stage = Stage::Running;
        let now = shared.clock.now();
        *this.began = now;
        *this.told = now;
        shared.telemetry().on_start();
        if this.refusal.is_some() {
            return false;
        }
        let (facts, overrides) = (&*this.facts, &*this.overrides);
        *this.opened = shared.with(|state| {
            state.follow_wall_clock(&shared.clock, now);
            if state.holds_callers() {
                return None;
            }
            state.target.open(facts, overrides, now)
        });
        this.opened.is_some() && self.send_first()
    }

    /// Sends the first attempt. False where it cannot be sent: the call has to be made then.
    #[inline]
    fn send_first(self: Pin<&mut Self>) -> bool {
        let mut this = self.project();
        let Some(opened) = this.opened else { return false };
        let now = *this.told;
        let until = this.facts.deadline.moment();
        let attempt = Attempt {
            number: 1,
            kind: AttemptKind::First,
            ends: opened.ends(),
        };
        let sending = protocol::Sending {
            attempt,
            criticality: this.facts.criticality,
            left: Deadline::at(attempt.ends).left(now),
            call_left: opened.deadline().left(now),
            until: (until != Instant::NEVER).then(|| this.shared.clock.moment(until)),
        };
        let future = match this.protocol.attempt(this.kept, &sending) {
            // The service that was found ready; its clones must be found ready again.
            Some(request) => this.service.call(request),
            None => return false,
        };
        this.first.set(Sending::Running { future });
        this.shared.notify(|| CallEvent::Sent {
            attempt: attempt.number,
            kind: attempt.kind,
            at: Duration::ZERO,
        });
        *this.number = attempt.number;
        true
    }

    /// The first attempt has succeeded, and nothing else has happened.
    #[inline]
    fn succeed_at_once(self: Pin<&mut Self>, mut response: S::Response) -> S::Response {
        let mut this = self.project();
        let shared = &**this.shared;
        this.first.set(Sending::Idle);
        *this.stage = Stage::Over;
        let now = shared.clock.now();
        if let Some(first) = this.opened.take() {
            shared.with(|state| first.succeed(&mut state.target, now));
        }
        shared
            .telemetry()
            .on_success_at_once(now.nanos_since(*this.began));
        if shared.is_observed() {
            tell_success(shared, now.since(*this.began));
        }
        this.protocol.conclude(&mut response, &Report::CLEAN);
        response
    }

    /// The first attempt has ended otherwise than with a plain success.
    #[cold]
    fn end_first(mut self: Pin<&mut Self>, result: Result<S::Response, S::Error>) -> Step {
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
    fn begin(mut self: Pin<&mut Self>) -> Step {
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
    fn go_on(
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
    fn poll_waits(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
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

    /// Hands on the result that the machine calls a success.
    fn succeed(mut self: Pin<&mut Self>, number: u8) -> Result<S::Response, Error<S::Error>> {
        let report = self.as_mut().conclude(&Verdict::Success { number });
        if report.retries > 0 {
            self.shared.tell_gain();
        }
        let this = self.project();
        let ended = this.troubled.as_mut().and_then(|troubled| {
            let history = std::mem::take(&mut troubled.history);
            troubled.last.take().map(|(_, result)| (result, history))
        });
        match ended {
            Some((Ok(mut response), _)) => {
                this.protocol.conclude(&mut response, &report);
                Ok(response)
            }
            // An error that the judge reads as an answer like any other ("not found", say).
            Some((Err(error), history)) => Err(Error::Failed {
                error,
                attempts: report.attempts,
                refusal: Refusal::NotRetryable,
                retry_after: None,
                history,
            }),
            // Only the end of an attempt is a success.
            None => {
                debug_assert!(false, "a success without a result");
                Err(Error::TimedOut {
                    attempts: report.attempts,
                    refusal: Refusal::AttemptsUsed,
                    retry_after: None,
                    history: Vec::new(),
                })
            }
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
        let (last, history) = this.troubled.as_mut().map_or_else(Default::default, |troubled| {
            (troubled.last.take(), std::mem::take(&mut troubled.history))
        });
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
            // A success has its own way out.
            (Verdict::Success { .. }, _) => {
                debug_assert!(false, "a success that has failed");
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
    fn conclude(self: Pin<&mut Self>, verdict: &Verdict) -> Report {
        let this = self.project();
        *this.stage = Stage::Over;
        let report = match this.troubled {
            Some(troubled) => {
                if troubled.queued {
                    let ticket = troubled.call.ticket();
                    this.shared.with(|state| state.forget(ticket));
                }
                report(verdict, &troubled.call)
            }
            None => Report::CLEAN,
        };
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

/// The machine was told that the request can be sent; that it cannot is found out only now. For a hedge it may only be too
/// early, as long as the body is still on its way.
#[cold]
fn cannot_send(call: &mut Call, number: u8, kind: AttemptKind, shared: &Shared, now: Instant) -> Step {
    if kind != AttemptKind::Hedge {
        call.forbid_replay();
    }
    let outcome = Outcome::Failure(Failure::new(FailureKind::Cancelled));
    shared.with(|state| call.on_outcome(number, &outcome, &mut state.target, now, &mut Draws(shared)))
}

/// Tells the observer of a first attempt that has succeeded, and its call with it.
#[cold]
fn tell_success(shared: &Shared, at: Duration) {
    shared.notify(|| CallEvent::Ended {
        attempt: 1,
        failure: None,
        at,
    });
    shared.notify(|| CallEvent::Finished {
        attempts: 1,
        refusal: None,
        at,
    });
}

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
