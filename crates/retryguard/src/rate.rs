//! A rate limiter as a layer of its own.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use retryguard_core::{Refusal, rate};
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    clock::{self, Clock},
    error::Error,
    sync::{Mutex, lock},
};

/// Lets so many calls through in a span of time; the others wait for their turn, or are refused with
/// [`Refusal::RateLimited`] and the time until there is a place again. All services of the layer share one rate.
///
/// For a quota that is known, such as a third party's "100 requests in a second". A limit that is not known is found by the
/// policy's throttle and bulkhead.
///
/// ```
/// use std::time::Duration;
/// use retryguard::{Refusal, machines::rate, patterns::RateLimitLayer};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let layer = RateLimitLayer::new(rate::Settings::new(100, Duration::from_secs(1)));
/// let mut service = layer.layer(service_fn(|n: u32| async move { Ok::<_, std::io::Error>(n) }));
/// assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 7);
/// let refused = service.ready().await.unwrap().call(8).await.unwrap_err();
/// assert_eq!(refused.refusal(), Some(Refusal::RateLimited));
/// assert!(refused.retry_after().is_some());
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    rate: Mutex<rate::Rate>,
}

impl RateLimitLayer {
    /// A rate.
    #[must_use]
    pub fn new(settings: rate::Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock: Clock::start(),
                rate: Mutex::new(rate::Rate::new(settings)),
            }),
        }
    }
}

impl std::fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit {
            inner,
            shared: self.shared.clone(),
        }
    }
}

/// The service of a [`RateLimitLayer`].
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> std::fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimit").finish_non_exhaustive()
    }
}

impl<S, R> Service<R> for RateLimit<S>
where
    S: Service<R> + Clone,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = RateLimitFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Error::NotReady)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let stage = match lock(&self.shared.rate).take(self.shared.clock.now()) {
            Err(retry_after) => Stage::Refused { retry_after },
            Ok(Duration::ZERO) => Stage::Calling {
                future: self.inner.call(request),
            },
            Ok(wait) => {
                // The service that was found ready makes the call.
                let clone = self.inner.clone();
                Stage::Waiting {
                    sleep: tokio::time::sleep_until(clock::after(wait)),
                    service: std::mem::replace(&mut self.inner, clone),
                    request: Some(request),
                }
            }
        };
        RateLimitFuture {
            stage,
            waiting: Waiting(None),
        }
        .waiting_at(&self.shared)
    }
}

/// Gives the place of a call back that is dropped while it waits.
struct Waiting(Option<Arc<Shared>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            lock(&shared.rate).give_back();
        }
    }
}

pin_project! {
    /// The future of a [`RateLimit`].
    pub struct RateLimitFuture<S, R>
    where
        S: Service<R>,
    {
        #[pin]
        stage: Stage<S, R>,
        waiting: Waiting,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, R>
    where
        S: Service<R>,
    {
        Refused { retry_after: Duration },
        Waiting { #[pin] sleep: Sleep, service: S, request: Option<R> },
        Calling { #[pin] future: S::Future },
    }
}

impl<S: Service<R>, R> RateLimitFuture<S, R> {
    fn waiting_at(mut self, shared: &Arc<Shared>) -> Self {
        if let Stage::Waiting { .. } = self.stage {
            self.waiting = Waiting(Some(shared.clone()));
        }
        self
    }
}

impl<S: Service<R>, R> Future for RateLimitFuture<S, R> {
    type Output = Result<S::Response, Error<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let future = match this.stage.as_mut().project() {
                StageProjection::Refused { retry_after } => {
                    return Poll::Ready(Err(Error::Refused {
                        refusal: Refusal::RateLimited,
                        retry_after: Some(*retry_after),
                    }));
                }
                StageProjection::Calling { future } => {
                    return future.poll(cx).map_err(|error| Error::Failed {
                        error,
                        attempts: 1,
                        refusal: Refusal::NotRetryable,
                        retry_after: None,
                        history: Vec::new(),
                    });
                }
                StageProjection::Waiting {
                    sleep,
                    service,
                    request,
                } => {
                    ready!(sleep.poll(cx));
                    this.waiting.0 = None;
                    match request.take() {
                        Some(request) => service.call(request),
                        None => return Poll::Pending,
                    }
                }
            };
            this.stage.set(Stage::Calling { future });
        }
    }
}
