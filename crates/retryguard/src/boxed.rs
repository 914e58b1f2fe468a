//! Services of boxed errors under a layer whose errors can be boxed again.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, BoxedError};

/// Turns the errors of a service into [`BoxedError`], so that those of a [`RetryGuardLayer`](crate::RetryGuardLayer) above
/// it go into a [`BoxError`] by `?` alone. `HttpLayer` has it inside.
///
/// It is needed over a service whose error is a `BoxError`, such as a `Buffer` or a boxed service: a `BoxError` does not
/// implement `std::error::Error`, so that [`Error<BoxError>`](crate::Error) cannot either, and the standard library's
/// conversion leaves no room for one of ours.
///
/// ```
/// use retryguard::{BoxError, BoxErrorsLayer, Policy, RetryGuardLayer, protocol::Plain};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let service = ServiceBuilder::new()
///     .layer(RetryGuardLayer::new(&Policy::default(), "stock", Plain::idempotent()))
///     .layer(BoxErrorsLayer)
///     .service(service_fn(|n: u32| async move { Ok::<_, BoxError>(n) }));
/// assert_eq!(service.oneshot(7).await?, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct BoxErrorsLayer;

impl<S> Layer<S> for BoxErrorsLayer {
    type Service = BoxErrors<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BoxErrors { inner }
    }
}

/// The service of a [`BoxErrorsLayer`].
#[derive(Debug, Clone, Copy)]
pub struct BoxErrors<S> {
    inner: S,
}

impl<S, R> Service<R> for BoxErrors<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxedError;
    type Future = BoxErrorsFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.inner.poll_ready(cx).map_err(BoxedError::new)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        BoxErrorsFuture {
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// The future of a [`BoxErrors`] service.
    pub struct BoxErrorsFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, T, E> Future for BoxErrorsFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxedError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx).map_err(BoxedError::new)
    }
}
