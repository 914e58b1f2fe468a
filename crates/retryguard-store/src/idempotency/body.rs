//! The body of a response: the handler's own, or one that was read into memory as far as it fits.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of the idempotency layer.
    pub struct IdempotencyBody<B: Body> {
        #[pin]
        source: Source<B>,
    }
}

pin_project! {
    #[project = SourceProjection]
    enum Source<B: Body> {
        Handler { #[pin] body: B },
        Read { read: Read<B> },
    }
}

/// What was read of a body, and how it goes on.
pub(super) struct Read<B: Body> {
    pub(super) bytes: Bytes,
    pub(super) end: End<B>,
}

pub(super) enum End<B: Body> {
    /// There is no more.
    Whole(Option<HeaderMap>),
    /// More than the limit: the rest is not read yet.
    Large(Pin<Box<B>>),
    /// It broke off.
    Broken(B::Error),
}

impl<B: Body<Data = Bytes>> Read<B> {
    /// Reads until the end or beyond the limit.
    pub(super) async fn from(body: B, limit: usize) -> Self {
        let mut body = Box::pin(body);
        let mut bytes = BytesMut::new();
        let mut trailers = None;
        let end = loop {
            if bytes.len() > limit {
                break End::Large(body);
            }
            match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                None => break End::Whole(trailers),
                Some(Err(error)) => break End::Broken(error),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => bytes.extend_from_slice(&data),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
        };
        Self {
            bytes: bytes.freeze(),
            end,
        }
    }
}

impl<B: Body> IdempotencyBody<B> {
    /// The handler's own, untouched.
    pub(super) const fn handler(body: B) -> Self {
        Self {
            source: Source::Handler { body },
        }
    }

    /// One that was read.
    pub(super) const fn read(read: Read<B>) -> Self {
        Self {
            source: Source::Read { read },
        }
    }

    /// One that the layer has made.
    pub(super) const fn own(bytes: Bytes) -> Self {
        Self::read(Read {
            bytes,
            end: End::Whole(None),
        })
    }
}

impl<B: Body<Data = Bytes>> Body for IdempotencyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().source.project() {
            SourceProjection::Handler { body } => body.poll_frame(cx),
            SourceProjection::Read { read } => read.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Handler { body } => body.is_end_stream(),
            Source::Read { read } => read.bytes.is_empty() && matches!(read.end, End::Whole(None)),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Handler { body } => body.size_hint(),
            Source::Read { read } => read.size_hint(),
        }
    }
}

impl<B: Body<Data = Bytes>> Read<B> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.bytes.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))));
        }
        if let End::Large(rest) = &mut self.end {
            return rest.as_mut().poll_frame(cx);
        }
        Poll::Ready(match std::mem::replace(&mut self.end, End::Whole(None)) {
            End::Whole(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            End::Broken(error) => Some(Err(error)),
            // Looked at right above.
            End::Large(_) => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.bytes.len() as u64;
        let End::Large(rest) = &self.end else {
            return SizeHint::with_exact(read);
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.size_hint().lower() + read);
        if let Some(upper) = rest.size_hint().upper() {
            hint.set_upper(upper + read);
        }
        hint
    }
}
