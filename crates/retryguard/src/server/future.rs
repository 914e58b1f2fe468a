//! The future of a request on a server: waits for its turn, then for the handler, and no longer than the
//! deadline.

use std::{
    pin::Pin,
    task::{self, Poll},
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
    shared::Inside,
};
use crate::{context::Context, error::BoxError};

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
        Waiting { service: S, request: Option<Request<A>> },
        Working { #[pin] future: S::Future },
    }
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
                body_until: None,
            },
            sleep: None,
        }
    }

    pub(super) fn admitted(
        inside: Option<Inside>,
        context: Context,
        mut service: S,
        request: Request<A>,
        manner: Manner,
    ) -> Self {
        let stage = if inside.as_ref().is_some_and(Inside::must_wait) {
            Stage::Waiting {
                service,
                request: Some(request),
            }
        } else {
            Stage::Working {
                future: context.enter(|| service.call(request)),
            }
        };
        Self {
            stage,
            inside,
            context: Some(context),
            manner,
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

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StageProjection::Refused { answer } = this.stage.as_mut().project() {
            return Poll::Ready(Ok(answer.response(this.manner.grpc)));
        }
        let Some(context) = this.context.as_ref() else {
            return Poll::Pending;
        };
        loop {
            let future = match this.stage.as_mut().project() {
                StageProjection::Refused { .. } => return Poll::Pending,
                StageProjection::Working { future } => {
                    if let Poll::Ready(result) = context.enter(|| future.poll(cx)) {
                        if let Some(inside) = this.inside.as_mut() {
                            inside.end(has_failed(&result));
                        }
                        // The place goes with the body, or is given back here.
                        let inside = this.inside.take().filter(|_| this.manner.holds_bodies);
                        return Poll::Ready(result.map(|mut response| {
                            refuse::mark_retried(&mut response, context.retried());
                            let until = this.manner.body_until;
                            response.map(|body| ServerBody::handler(body, inside, until))
                        }));
                    }
                    break;
                }
                StageProjection::Waiting { service, request } => {
                    let turn = this
                        .inside
                        .as_mut()
                        .map_or(Poll::Ready(()), |inside| inside.poll_turn(cx.waker()));
                    if turn.is_pending() {
                        break;
                    }
                    let Some(request) = request.take() else {
                        return Poll::Pending;
                    };
                    context.enter(|| service.call(request))
                }
            };
            this.stage.set(Stage::Working { future });
        }
        let Some(deadline) = context.deadline() else {
            return Poll::Pending;
        };
        if this.sleep.is_none() {
            this.sleep.set(Some(tokio::time::sleep_until(deadline)));
        }
        let late = this
            .sleep
            .as_pin_mut()
            .is_some_and(|sleep| sleep.poll(cx).is_ready());
        if !late {
            return Poll::Pending;
        }
        // The work is dropped, and its calls with it: nobody waits for them any more.
        this.stage.set(Stage::Refused {
            answer: Answer::TooLate,
        });
        if let Some(mut inside) = this.inside.take() {
            inside.end(true);
        }
        Poll::Ready(Ok(Answer::TooLate.response(this.manner.grpc)))
    }
}

/// Whether the server failed at a request: an error, an answer of the 5xx class, or a gRPC status that says the same in
/// an answer without a body.
fn has_failed<B, E>(result: &Result<Response<B>, E>) -> bool {
    let Ok(response) = result else { return true };
    if response.status().is_server_error() {
        return true;
    }
    let grpc = response.headers().get("grpc-status");
    // Unknown, deadline exceeded, resource exhausted, internal, unavailable, data loss.
    grpc.is_some_and(|status| matches!(status.as_bytes(), b"2" | b"4" | b"8" | b"13" | b"14" | b"15"))
}
