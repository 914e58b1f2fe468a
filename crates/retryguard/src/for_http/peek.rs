//! gRPC failures that come in trailers.
//!
//! A gRPC response is an HTTP 200 whatever happened; its status is in the headers or, more often, in the
//! trailers. So the service below is asked for one frame more before its answer is judged: a failure without
//! a message shows itself there, and can still be retried. A stream that has begun to deliver messages cannot
//! be, and passes. The price: a stream whose first message comes late is handed on late, and the attempt's time
//! runs until then; give such a service a policy without an attempt timeout and with a deadline to match.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE, response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    patience::{Patience, Pause},
    replay::ReplayBody,
    tags::GRPC_STATUS,
};
use crate::error::{BoxError, BoxedError};

/// The gRPC status of a response, put into its extensions once it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcStatus(pub u8);

/// Reads the first frame of gRPC responses to gRPC requests ahead, and bounds the time that bodies take.
#[derive(Debug, Clone, Copy)]
pub struct Peek<S> {
    inner: S,
}

impl<S> Peek<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, A, B> Service<Request<ReplayBody<A>>> for Peek<S>
where
    S: Service<Request<ReplayBody<A>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<PeekBody<B>>;
    type Error = BoxedError;
    type Future = PeekFuture<S::Future, B>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.inner.poll_ready(cx).map_err(BoxedError::new)
    }

    #[inline]
    fn call(&mut self, request: Request<ReplayBody<A>>) -> Self::Future {
        let body = request.body();
        PeekFuture {
            patience: body.patience,
            grpc: body.grpc,
            inner: self.inner.call(request),
            begun: None,
        }
    }
}

pin_project! {
    /// The future of [`Peek`].
    pub struct PeekFuture<F, B> where B: Body {
        #[pin]
        inner: F,
        patience: Patience,
        grpc: bool,
        // A gRPC response whose first frame has not come yet.
        begun: Option<Pin<Box<Begun<B>>>>,
    }
}

impl<F, B, E> Future for PeekFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<PeekBody<B>>, BoxedError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.begun.is_none() {
            let response = match ready!(this.inner.poll(cx)) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(BoxedError::new(error))),
            };
            if !*this.grpc || !is_grpc(response.headers()) {
                let patience = *this.patience;
                return Poll::Ready(Ok(response.map(|body| PeekBody::whole(body, patience))));
            }
            if response.headers().contains_key(GRPC_STATUS) {
                let response = response.map(|body| PeekBody::whole(body, *this.patience));
                return Poll::Ready(Ok(with_status(response, First::Status)));
            }
            let (head, rest) = response.into_parts();
            *this.begun = Some(Box::pin(Begun {
                head: Some(head),
                first: None,
                rest,
            }));
        }
        poll_first_frame(this.begun, *this.patience, cx)
    }
}

/// Waits for the first frame of a response of gRPC.
fn poll_first_frame<B>(
    place: &mut Option<Pin<Box<Begun<B>>>>,
    patience: Patience,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<PeekBody<B>>, BoxedError>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let Some(mut begun) = place.take() else {
        return Poll::Pending;
    };
    let this = begun.as_mut().project();
    let first = match this.rest.poll_frame(cx) {
        Poll::Ready(Some(Ok(frame))) => Some(Ok(frame)),
        Poll::Ready(None) => None,
        Poll::Ready(Some(Err(error))) => {
            return Poll::Ready(Err(BoxedError::new(StreamBroke(error.into()))));
        }
        Poll::Pending => {
            *place = Some(begun);
            return Poll::Pending;
        }
    };
    let seen = match &first {
        Some(Ok(frame)) => frame
            .trailers_ref()
            .cloned()
            .map_or(First::Message, First::Trailers),
        Some(Err(_)) | None => First::End,
    };
    *this.first = Some(first);
    // The head is there until now: it is taken here alone, and the place is empty afterwards.
    let Some(head) = this.head.take() else {
        return Poll::Pending;
    };
    let response = Response::from_parts(head, PeekBody::begun(begun, patience));
    Poll::Ready(Ok(with_status(response, seen)))
}

/// A response of gRPC broke off before its first message and its status.
#[derive(Debug, thiserror::Error)]
#[error("the stream broke before its first message")]
pub struct StreamBroke(#[source] pub(super) BoxError);

/// What a response of gRPC begins with.
enum First {
    /// The status, among its headers.
    Status,
    Message,
    /// The status, or whatever else the trailers say, in place of a message.
    Trailers(HeaderMap),
    /// Its end.
    End,
}

/// Notes the status, wherever it stood. Hints in trailers are put beside it, where the judge looks. An end without a status
/// that can be read is UNKNOWN, as gRPC has it.
fn with_status<B: Body>(mut response: Response<PeekBody<B>>, first: First) -> Response<PeekBody<B>> {
    const UNKNOWN: u8 = 2;
    let read = |headers: &HeaderMap| {
        let text = headers.get(GRPC_STATUS).and_then(|value| value.to_str().ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(UNKNOWN)
    };
    let status = match &first {
        First::Message => return response,
        First::Status => read(response.headers()),
        First::Trailers(trailers) => read(trailers),
        First::End => UNKNOWN,
    };
    response.extensions_mut().insert(GrpcStatus(status));
    if let First::Trailers(trailers) = first {
        response.extensions_mut().insert(Trailers(trailers));
    }
    response
}

/// Trailers that came instead of a message.
#[derive(Debug, Clone)]
pub(super) struct Trailers(pub(super) HeaderMap);

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(is_grpc_type)
}

/// Whether a content type is one of gRPC's.
#[inline]
pub(super) fn is_grpc_type(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/grpc")
}

pin_project! {
    /// The body of a response. Its first frame may have been read ahead; a pause that takes too long ends it with
    /// [`BodyTimedOut`](super::BodyTimedOut).
    pub struct PeekBody<B> where B: Body {
        #[pin]
        state: State<B>,
        pause: Pause,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<B> where B: Body {
        Whole { #[pin] body: B },
        // On the heap, so that the bodies of other protocols stay small: a response is moved several times.
        Begun { begun: Pin<Box<Begun<B>>> },
    }
}

pin_project! {
    /// A body whose first frame was waited for.
    struct Begun<B> where B: Body {
        // The head of the response, until it is handed on.
        head: Option<response::Parts>,
        // The first frame, or the end, until it is handed on.
        first: Option<FirstFrame<B>>,
        // What follows it.
        #[pin]
        rest: B,
    }
}

/// The first frame of a body, or its end.
type FirstFrame<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

impl<B: Body> PeekBody<B> {
    const fn whole(body: B, patience: Patience) -> Self {
        Self {
            state: State::Whole { body },
            pause: Pause::new(patience),
        }
    }

    const fn begun(begun: Pin<Box<Begun<B>>>, patience: Patience) -> Self {
        Self {
            state: State::Begun { begun },
            pause: Pause::new(patience),
        }
    }
}

impl<B: Body> std::fmt::Debug for PeekBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeekBody").finish_non_exhaustive()
    }
}

impl<B> Body for PeekBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if this.pause.is_over() {
            return Poll::Ready(None);
        }
        let frame = match this.state.project() {
            StateProjection::Whole { body } => body.poll_frame(cx),
            StateProjection::Begun { begun } => {
                let begun = begun.as_mut().project();
                match begun.first.take() {
                    // The end that was read ahead stays the end.
                    Some(None) => {
                        *begun.first = Some(None);
                        Poll::Ready(None)
                    }
                    Some(frame) => Poll::Ready(frame),
                    None => begun.rest.poll_frame(cx),
                }
            }
        };
        match frame {
            Poll::Ready(frame) => {
                this.pause.end();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => this.pause.poll(cx).map(|late| Some(Err(late.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pause.is_over()
            || match &self.state {
                State::Whole { body } => body.is_end_stream(),
                State::Begun { begun } => match &begun.first {
                    Some(first) => first.is_none(),
                    None => begun.rest.is_end_stream(),
                },
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Whole { body } => body.size_hint(),
            State::Begun { begun } => match &begun.first {
                Some(None) => SizeHint::with_exact(0),
                // A frame that was read ahead is no longer counted by the body: say only what is certain.
                Some(Some(_)) => SizeHint::new(),
                None => begun.rest.size_hint(),
            },
        }
    }
}
