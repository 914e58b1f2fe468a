//! One attempt on its way to one of several endpoints.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use retryguard_core::endpoints::Sent;
use retryguard_policy::Service as ServicePolicy;
use tower_service::Service;

use super::{
    state::{Chosen, Shared},
    tracking::{Tracked, Tried},
};
use crate::protocol::Judge;

pin_project! {
    /// The future of one attempt. The endpoint is chosen with the first poll. Dropping the future gives the attempt up:
    /// the endpoint has failed if it had enough time.
    pub struct EndpointFuture<S, P, R>
    where
        S: Service<R>,
    {
        shared: Arc<Shared<S>>,
        protocol: P,
        tried: Tried,
        repeatable: bool,
        request: Option<R>,
        under_way: Option<UnderWay>,
        #[pin]
        stage: Stage<S, S::Future>,
    }

    impl<S, P, R> PinnedDrop for EndpointFuture<S, P, R>
    where
        S: Service<R>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(UnderWay { sent, policy }) = this.under_way.take() {
                this.shared.end(sent, None, &policy);
            }
        }
    }
}

struct UnderWay {
    sent: Sent,
    policy: Arc<ServicePolicy>,
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, F> {
        Choosing,
        Preparing { service: S },
        Running { #[pin] future: F },
    }
}

impl<S: Service<R>, P, R> EndpointFuture<S, P, R> {
    pub(super) fn new(shared: Arc<Shared<S>>, protocol: P, attempt: Tracked<R>) -> Self {
        Self {
            shared,
            protocol,
            tried: attempt.tried,
            repeatable: attempt.repeatable,
            request: Some(attempt.request),
            under_way: None,
            stage: Stage::Choosing,
        }
    }
}

impl<S, P, R> Future for EndpointFuture<S, P, R>
where
    S: Service<R> + Clone,
    P: Judge<S::Response, S::Error>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Choosing => {
                    let chosen = this.shared.choose(this.tried, *this.repeatable, cx.waker());
                    let Some(Chosen {
                        service,
                        sent,
                        policy,
                    }) = chosen
                    else {
                        return Poll::Pending;
                    };
                    *this.under_way = Some(UnderWay { sent, policy });
                    Stage::Preparing { service }
                }
                StageProjection::Preparing { service } => {
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        break Err(error);
                    }
                    let Some(request) = this.request.take() else {
                        return Poll::Pending;
                    };
                    Stage::Running {
                        future: service.call(request),
                    }
                }
                StageProjection::Running { future } => break ready!(future.poll(cx)),
            };
            this.stage.set(next);
        };
        if let Some(UnderWay { sent, policy }) = this.under_way.take() {
            let outcome = this.protocol.judge(&result, &policy.classifier);
            this.shared.end(sent, Some(&outcome), &policy);
        }
        Poll::Ready(result)
    }
}
