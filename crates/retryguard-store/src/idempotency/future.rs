//! The future of a request.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::IdempotencyBody;

pub(super) type Work<B, E> = Pin<Box<dyn Future<Output = Result<Response<IdempotencyBody<B>>, E>> + Send>>;

pin_project! {
    /// The future of one request.
    pub struct IdempotencyFuture<F, B: Body, E> {
        #[pin]
        stage: Stage<F, B, E>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, B: Body, E> {
        // Nothing of ours: no key, or a method that needs none.
        Passed { #[pin] future: F },
        Refused { response: Option<Response<Bytes>> },
        Guarded { work: Detached<B, E> },
    }
}

impl<F, B: Body, E> IdempotencyFuture<F, B, E> {
    pub(super) const fn passed(future: F) -> Self {
        Self {
            stage: Stage::Passed { future },
        }
    }

    pub(super) const fn refused(response: Response<Bytes>) -> Self {
        Self {
            stage: Stage::Refused {
                response: Some(response),
            },
        }
    }

    pub(super) fn guarded(work: impl FnOnce(ClientGone) -> Work<B, E>, lock: Duration) -> Self
    where
        B: 'static,
        E: 'static,
    {
        let gone = ClientGone::default();
        let work = Detached {
            work: Some(work(gone.clone())),
            gone,
            lock,
            finish,
        };
        Self {
            stage: Stage::Guarded { work },
        }
    }
}

impl<F, B, E> Future for IdempotencyFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<IdempotencyBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().stage.project() {
            StageProjection::Passed { future } => future
                .poll(cx)
                .map(|result| result.map(|response| response.map(IdempotencyBody::handler))),
            StageProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response.map(IdempotencyBody::own))),
                None => Poll::Pending,
            },
            StageProjection::Guarded { work } => work.poll(cx),
        }
    }
}

/// Whether the client still waits, and whether the key has been asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientGone(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    gone: AtomicBool,
    asked: AtomicBool,
}

impl ClientGone {
    pub(super) fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Acquire)
    }

    /// From now on the store may know of the request, so it must be brought to an end.
    pub(super) fn asked(&self) {
        self.0.asked.store(true, Ordering::Release);
    }
}

/// Work that goes on when no caller waits for it any more. Dropping a future does not undo its effect: the statement that
/// it had sent is executed all the same. So it runs to its end, by itself, and the retry finds its response.
struct Detached<B: Body, E> {
    work: Option<Work<B, E>>,
    gone: ClientGone,
    lock: Duration,
    finish: fn(Work<B, E>, Duration),
}

impl<B: Body, E> Detached<B, E> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<IdempotencyBody<B>>, E>> {
        // Taken out while it is polled: if it panics, it is dropped and not brought to an end.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let answer = work.as_mut().poll(cx);
        if answer.is_pending() {
            self.work = Some(work);
        }
        answer
    }
}

impl<B: Body, E> Drop for Detached<B, E> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.gone.0.asked.load(Ordering::Acquire)
        {
            self.gone.0.gone.store(true, Ordering::Release);
            (self.finish)(work, self.lock);
        }
    }
}

/// Bounded by the lock: afterwards another may work on it.
fn finish<B: Body + 'static, E: 'static>(work: Work<B, E>, lock: Duration) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            let done = tokio::time::timeout(lock, work).await.is_ok();
            if !done {
                tracing::warn!(target: "retryguard", "work that no caller waits for was given up when its lock ran out");
            }
        });
    }
}
