//! What to answer when there is no good answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// Puts a value in the place of a failure: a cached price, an empty list, a polite page.
///
/// The function sees every result, so that it can also replace a failed *response*, and may return the
/// failure as it is. It belongs outside the policy's layer, where all retries have been made.
///
/// ```
/// use retryguard::{Error, FallbackLayer, Policy, RetryGuardLayer, protocol::Plain};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let policy = Policy::parse("defaults: { maxRetries: 0 }").unwrap();
/// let failing = service_fn(|_: ()| async { Err::<u32, _>(std::io::Error::other("down")) });
/// let guarded = RetryGuardLayer::new(&policy, "prices", Plain::idempotent()).layer(failing);
/// let service = FallbackLayer::new(|result: Result<u32, Error<_>>| result.or(Ok::<_, Error<std::io::Error>>(42)));
/// assert_eq!(service.layer(guarded).oneshot(()).await.unwrap(), 42);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FallbackLayer<F> {
    fallback: F,
}

impl<F> FallbackLayer<F> {
    /// A function from every result to the result that the caller gets.
    pub const fn new(fallback: F) -> Self {
        Self { fallback }
    }
}

impl<S, F: Clone> Layer<S> for FallbackLayer<F> {
    type Service = Fallback<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Fallback {
            inner,
            fallback: self.fallback.clone(),
        }
    }
}

/// A service with a fallback.
#[derive(Debug, Clone)]
pub struct Fallback<S, F> {
    inner: S,
    fallback: F,
}

impl<S, F, Request, E> Service<Request> for Fallback<S, F>
where
    S: Service<Request>,
    F: FnOnce(Result<S::Response, S::Error>) -> Result<S::Response, E> + Clone,
    E: From<S::Error>,
{
    type Response = S::Response;
    type Error = E;
    type Future = FallbackFuture<S::Future, F>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.inner.poll_ready(cx).map_err(E::from)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        FallbackFuture {
            inner: self.inner.call(request),
            fallback: Some(self.fallback.clone()),
        }
    }
}

pin_project! {
    /// The future of [`Fallback`].
    pub struct FallbackFuture<T, F> {
        #[pin]
        inner: T,
        fallback: Option<F>,
    }
}

impl<T, F, Response, Error, E> Future for FallbackFuture<T, F>
where
    T: Future<Output = Result<Response, Error>>,
    F: FnOnce(Result<Response, Error>) -> Result<Response, E>,
    E: From<Error>,
{
    type Output = Result<Response, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        Poll::Ready(match this.fallback.take() {
            Some(fallback) => fallback(result),
            None => result.map_err(E::from),
        })
    }
}
