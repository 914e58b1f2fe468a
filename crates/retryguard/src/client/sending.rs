//! One attempt under way: waits for the service below to be ready, then for its answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// An attempt, or the place for one.
    #[project = SendingProjection]
    pub(super) enum Sending<S, R>
    where
        S: Service<R>,
    {
        Idle,
        // On the heap: only retries and hedges are prepared, and every call has a place for an attempt.
        Preparing { prepared: Box<Prepared<S, R>> },
        Running { #[pin] future: S::Future },
    }
}

/// What a later attempt needs until the service below is ready for it.
pub(super) struct Prepared<S, R> {
    service: S,
    request: Option<R>,
}

impl<S: Service<R>, R> Sending<S, R> {
    pub(super) fn new(service: S, request: R) -> Self {
        Self::Preparing {
            prepared: Box::new(Prepared {
                service,
                request: Some(request),
            }),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    #[inline]
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        loop {
            let future = match self.as_mut().project() {
                SendingProjection::Idle => return Poll::Pending,
                SendingProjection::Running { future } => return future.poll(cx),
                SendingProjection::Preparing { prepared } => {
                    if let Err(error) = ready!(prepared.service.poll_ready(cx)) {
                        return Poll::Ready(Err(error));
                    }
                    match prepared.request.take() {
                        Some(request) => prepared.service.call(request),
                        None => return Poll::Pending,
                    }
                }
            };
            self.set(Self::Running { future });
        }
    }
}
