//! The future of a request on a server: waits for its turn, then for the handler, and no longer than the
//! deadline.

use std::{
    pin::Pin,
    task::{self, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use super::{
    ServerBody,
    refuse::{self, Answer},
    shared::{FULL_FOR, Inside},
};
use crate::{
    clock,
    context::{self, Context},
    error::BoxError,
    for_http::tags::GRPC_STATUS,
};

pin_project! {
    /// The future of one request.
    pub struct ServerFuture<S, A>
    where
        S: Service<Request<A>>,
    {
        #[pin]
        stage: Stage<S, A>,
        // Leaves the shedder when it is dropped.
        inside: Option<Inside>,
        context: Option<Context>,
        manner: Manner,
        // When the request is looked at next, where a full server bounds it.
        check_at: Option<tokio::time::Instant>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

/// How a request is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) grpc: bool,
    /// Whether it counts as in flight until the body of its response has ended.
    pub(super) holds_bodies: bool,
    /// How long it may hold its place while the server is full.
    pub(super) full_timeout: Option<Duration>,
    /// When the caller wants nothing of the response any more.
    pub(super) body_until: Option<tokio::time::Instant>,
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, A>
    where
        S: Service<Request<A>>,
    {
        Refused { answer: Answer },
        // On the heap: few servers have a queue, and every request has a place for its stage.
        Waiting { waiting: Box<Waiting<S, A>> },
        Working { #[pin] future: S::Future },
    }
}

/// A request that waits for its turn.
struct Waiting<S, A> {
    service: S,
    request: Option<Request<A>>,
}

impl<S, A> ServerFuture<S, A>
where
    S: Service<Request<A>>,
{
    pub(super) fn refused(answer: Answer, grpc: bool) -> Self {
        Self {
            stage: Stage::Refused { answer },
            inside: None,
            context: None,
            manner: Manner {
                grpc,
                holds_bodies: false,
                full_timeout: None,
                body_until: None,
            },
            check_at: None,
            sleep: None,
        }
    }

    #[inline]
    pub(super) fn admitted(
        inside: Option<Inside>,
        context: Context,
        mut service: S,
        request: Request<A>,
        manner: Manner,
    ) -> Self {
        let mut context = Some(context);
        let stage = if inside.as_ref().is_some_and(Inside::must_wait) {
            Stage::Waiting {
                waiting: Box::new(Waiting {
                    service,
                    request: Some(request),
                }),
            }
        } else {
            Stage::Working {
                future: context::enter(&mut context, || service.call(request)),
            }
        };
        Self {
            stage,
            inside,
            context,
            manner,
            check_at: None,
            sleep: None,
        }
    }
}

impl<S, A, B> Future for ServerFuture<S, A>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<ServerBody<B>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StageProjection::Refused { answer } = this.stage.as_mut().project() {
            return Poll::Ready(Ok(answer.response(this.manner.grpc)));
        }
        loop {
            let future = match this.stage.as_mut().project() {
                StageProjection::Refused { .. } => return Poll::Pending,
                StageProjection::Working { future } => {
                    if let Poll::Ready(result) = context::enter(this.context, || future.poll(cx)) {
                        if let Some(inside) = this.inside.as_mut() {
                            inside.end(has_failed(&result, this.manner.grpc));
                        }
                        let retried = this.context.take().map_or(0, Context::recycle);
                        // The place goes with the body, or is given back here. Most bodies of refusals and redirects are
                        // empty, and some servers never poll those.
                        let holds = this.manner.holds_bodies
                            && result
                                .as_ref()
                                .is_ok_and(|response| !response.body().is_end_stream());
                        let place = if holds { this.inside.take() } else { None };
                        *this.inside = None;
                        return Poll::Ready(result.map(|mut response| {
                            refuse::mark_retried(&mut response, retried);
                            let until = this.manner.body_until;
                            response.map(|body| ServerBody::handler(body, place, until))
                        }));
                    }
                    break;
                }
                StageProjection::Waiting { waiting } => {
                    let turn = this
                        .inside
                        .as_mut()
                        .map_or(Poll::Ready(()), |inside| inside.poll_turn(cx.waker()));
                    if turn.is_pending() {
                        break;
                    }
                    let Some(request) = waiting.request.take() else {
                        return Poll::Pending;
                    };
                    context::enter(this.context, || waiting.service.call(request))
                }
            };
            this.stage.set(Stage::Working { future });
        }
        if this.check_at.is_none() && this.inside.is_some() {
            *this.check_at = this.manner.full_timeout.map(clock::after);
        }
        let answer = loop {
            let deadline = this.context.as_ref().and_then(Context::deadline);
            let Some(until) = [deadline, *this.check_at].into_iter().flatten().min() else {
                return Poll::Pending;
            };
            match this.sleep.as_mut().as_pin_mut() {
                None => this.sleep.set(Some(tokio::time::sleep_until(until))),
                Some(sleep) if sleep.deadline() != until => sleep.reset(until),
                Some(_) => {}
            }
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                task::ready!(sleep.poll(cx));
            }
            if deadline == Some(until) {
                break Answer::TooLate;
            }
            if let Some(inside) = this.inside.as_ref().filter(|inside| inside.is_full()) {
                inside.count_too_slow(
                    this.context
                        .as_ref()
                        .map_or(retryguard_core::Criticality::default(), Context::criticality),
                );
                break Answer::TooSlow;
            }
            *this.check_at = Some(clock::after(FULL_FOR));
        };
        // The work is dropped, and its calls with it: no caller waits for them, or others need its place.
        this.stage.set(Stage::Refused { answer });
        if let Some(mut inside) = this.inside.take()
            && matches!(answer, Answer::TooLate)
        {
            inside.end(true);
        }
        Poll::Ready(Ok(answer.response(this.manner.grpc)))
    }
}

/// Whether the server failed at a request: an error, an answer of the 5xx class, or a gRPC status that says the same in
/// an answer without a body.
#[inline]
fn has_failed<B, E>(result: &Result<Response<B>, E>, grpc: bool) -> bool {
    let Ok(response) = result else { return true };
    if response.status().is_server_error() {
        return true;
    }
    let status = if grpc {
        response.headers().get(GRPC_STATUS)
    } else {
        None
    };
    // Unknown, deadline exceeded, resource exhausted, internal, unavailable, data loss.
    status.is_some_and(|status| matches!(status.as_bytes(), b"2" | b"4" | b"8" | b"13" | b"14" | b"15"))
}
