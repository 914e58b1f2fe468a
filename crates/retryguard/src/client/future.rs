//! The future of a call: moves effects between the machine and the world, and decides nothing. Here is the way of most calls, whose
//! first attempt succeeds.

mod ending;
mod going_on;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use retryguard_core::{
    Call, Deadline, Instant, Refusal,
    call::{Attempt, Facts, FirstAttempt, Overrides, Step},
    target::AttemptKind,
};
use tokio::time::Sleep;
use tower_service::Service;

use super::sending::Sending;
use crate::{
    error::Error,
    observer::{CallEvent, FailedAttempt},
    protocol::{self, Judge, Protocol, Report},
    shared::Shared,
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
        // When the machine last received an input.
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
        state.on_end();
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
        let (facts, overrides, refused) = (&*this.facts, &*this.overrides, this.refusal.is_some());
        let mut due = None;
        *this.opened = shared.with(|state| {
            due = state.on_begin(&shared.clock, now);
            if refused || state.holds_callers() {
                return None;
            }
            state.target.open(facts, overrides, now)
        });
        if let Some(due) = due {
            this.shared.report(due);
        }
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
            shared.with(|state| {
                state.on_clean_end();
                first.succeed(&mut state.target, now);
            });
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
