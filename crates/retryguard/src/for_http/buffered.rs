//! Services that take bodies in memory.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{Request, request};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::ReplayBody;
use crate::error::{BoxError, BoxedError};

/// Lets an [`HttpLayer`](super::HttpLayer) wrap a service that takes whole bodies, such as
/// `Service<Request<Full<Bytes>>>`: the body of each attempt is read into memory before it is sent. A body that is
/// already there is not copied.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use retryguard::{Policy, for_http::{BufferedLayer, HttpLayer}};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let plain = service_fn(|request: Request<Full<Bytes>>| async {
///     Ok::<_, std::io::Error>(Response::new(request.into_body()))
/// });
/// let service = ServiceBuilder::new()
///     .layer(HttpLayer::new(&Policy::default(), "echo"))
///     .layer(BufferedLayer::<Full<Bytes>>::new())
///     .service(plain);
/// service.oneshot(Request::new(Full::from("hello"))).await.unwrap();
/// # }
/// ```
pub struct BufferedLayer<T>(PhantomData<fn() -> T>);

impl<T> BufferedLayer<T> {
    /// For services whose bodies are of this type, which is made from bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for BufferedLayer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for BufferedLayer<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for BufferedLayer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BufferedLayer")
    }
}

impl<S, T> Layer<S> for BufferedLayer<T> {
    type Service = Buffered<S, T>;

    fn layer(&self, inner: S) -> Self::Service {
        Buffered {
            inner,
            bodies: PhantomData,
        }
    }
}

/// The service of a [`BufferedLayer`].
pub struct Buffered<S, T> {
    inner: S,
    bodies: PhantomData<fn() -> T>,
}

impl<S: Clone, T> Clone for Buffered<S, T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            bodies: PhantomData,
        }
    }
}

impl<S, T> fmt::Debug for Buffered<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buffered")
    }
}

impl<S, B, T> Service<Request<ReplayBody<B>>> for Buffered<S, T>
where
    S: Service<Request<T>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    T: From<Bytes>,
{
    type Response = S::Response;
    type Error = BoxedError;
    type Future = BufferedFuture<S, B, T>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.inner.poll_ready(cx).map_err(BoxedError::new)
    }

    fn call(&mut self, request: Request<ReplayBody<B>>) -> Self::Future {
        let (head, body) = request.into_parts();
        // The service that was found ready makes the call.
        let clone = self.inner.clone();
        BufferedFuture {
            stage: Stage::Reading {
                service: std::mem::replace(&mut self.inner, clone),
                head: Some(head),
                body,
                first: Bytes::new(),
                more: BytesMut::new(),
            },
        }
    }
}

pin_project! {
    /// The future of a [`Buffered`] service.
    pub struct BufferedFuture<S, B, T>
    where
        S: Service<Request<T>>,
    {
        #[pin]
        stage: Stage<S, B, T>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, B, T>
    where
        S: Service<Request<T>>,
    {
        Reading {
            service: S,
            head: Option<request::Parts>,
            #[pin]
            body: ReplayBody<B>,
            // What has come: a body of one piece is not copied.
            first: Bytes,
            more: BytesMut,
        },
        Calling { #[pin] future: S::Future },
    }
}

impl<S, B, T> Future for BufferedFuture<S, B, T>
where
    S: Service<Request<T>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    T: From<Bytes>,
{
    type Output = Result<S::Response, BoxedError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let future = match this.stage.as_mut().project() {
                StageProjection::Calling { future } => return future.poll(cx).map_err(BoxedError::new),
                StageProjection::Reading {
                    service,
                    head,
                    body,
                    first,
                    more,
                } => {
                    if let Some(frame) = ready!(body.poll_frame(cx)) {
                        // Trailers have no place in a body of bytes.
                        if let Ok(data) = frame.map_err(BoxedError::new)?.into_data() {
                            if first.is_empty() && more.is_empty() {
                                *first = data;
                            } else {
                                if more.is_empty() {
                                    more.extend_from_slice(first);
                                }
                                more.extend_from_slice(&data);
                            }
                        }
                        continue;
                    }
                    let whole = if more.is_empty() {
                        std::mem::take(first)
                    } else {
                        std::mem::take(more).freeze()
                    };
                    let Some(head) = head.take() else {
                        return Poll::Pending;
                    };
                    service.call(Request::from_parts(head, T::from(whole)))
                }
            };
            this.stage.set(Stage::Calling { future });
        }
    }
}
