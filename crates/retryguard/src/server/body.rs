//! The body of a response: the handler's own, or the sentence that says why there is none.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::shared::{Inside, SendingPlace};
use crate::{
    error::BoxError,
    for_http::{Patience, Pause},
};

pin_project! {
    /// The body of a response of the server layer. While it is sent, the request counts as in flight, unless the policy says
    /// otherwise; one that is not finished at the deadline of the caller ends with
    /// [`BodyTimedOut`](crate::for_http::BodyTimedOut).
    pub struct ServerBody<B> {
        #[pin]
        source: Source<B>,
        pause: Pause,
        place: Place,
    }
}

/// The place of the request among those in flight, given back when it is dropped.
enum Place {
    None,
    /// Nothing of the body has been asked for.
    Whole(Inside),
    /// The body is sent in several parts.
    Sending(Arc<SendingPlace>),
}

impl Place {
    /// A part was sent, or has to be waited for, and more will follow.
    fn goes_on(&mut self, sent: bool) {
        match std::mem::replace(self, Self::None) {
            Self::Whole(inside) => *self = Self::Sending(SendingPlace::new(inside)),
            Self::Sending(place) => {
                if sent {
                    place.progress();
                }
                *self = Self::Sending(place);
            }
            Self::None => {}
        }
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
    /// A handler's body. `inside` is held until it has ended; the rest is not wanted after `until`.
    #[inline]
    pub(super) fn handler(body: B, inside: Option<Inside>, until: Option<tokio::time::Instant>) -> Self {
        Self {
            place: inside.map_or(Place::None, Place::Whole),
            source: Source::Handler { body },
            pause: Pause::new(Patience::new(None, until)),
        }
    }

    pub(super) const fn reason(text: Option<Bytes>) -> Self {
        Self {
            source: Source::Reason { text },
            pause: Pause::new(Patience::NONE),
            place: Place::None,
        }
    }
}

impl<B> Body for ServerBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if this.pause.is_over() {
            return Poll::Ready(None);
        }
        let frame = match this.source.as_mut().project() {
            SourceProjection::Handler { body } => body.poll_frame(cx).map_err(Into::into),
            SourceProjection::Reason { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        };
        let frame = match frame {
            Poll::Ready(frame) => {
                this.pause.end();
                Poll::Ready(frame)
            }
            Poll::Pending => this.pause.poll(cx).map(|late| Some(Err(late.into()))),
        };
        let ended = match &frame {
            Poll::Pending => false,
            Poll::Ready(None | Some(Err(_))) => true,
            // A server that knows the length does not ask for the end.
            Poll::Ready(Some(Ok(_))) => match this.source.as_mut().project() {
                SourceProjection::Handler { body } => body.is_end_stream(),
                SourceProjection::Reason { .. } => true,
            },
        };
        if ended {
            *this.place = Place::None;
        } else {
            this.place.goes_on(frame.is_ready());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.pause.is_over()
            || match &self.source {
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
