//! The body of a response: the handler's own, or the sentence that says why there is none.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of the server layer.
    pub struct ServerBody<B> {
        #[pin]
        source: Source<B>,
    }
}

pin_project! {
    #[project = SourceProjection]
    enum Source<B> {
        Handler { #[pin] body: B },
        // Why the request was refused, until it is sent.
        Reason { text: Option<Bytes> },
    }
}

impl<B> ServerBody<B> {
    pub(super) const fn handler(body: B) -> Self {
        Self {
            source: Source::Handler { body },
        }
    }

    pub(super) const fn reason(text: Option<Bytes>) -> Self {
        Self {
            source: Source::Reason { text },
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ServerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().source.project() {
            SourceProjection::Handler { body } => body.poll_frame(cx),
            SourceProjection::Reason { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Handler { body } => body.is_end_stream(),
            Source::Reason { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Handler { body } => body.size_hint(),
            Source::Reason { text } => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
