//! An answer that comes a byte at a time.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};

use super::Site;
use crate::clock;

/// The pause before each byte, as described.
const PAUSE: Duration = Duration::from_millis(500);

/// Lets the body of an answer drip.
pub(super) fn slow(response: Response, site: &Site) -> Response {
    let pause = site.settings.scale.span(PAUSE);
    response.map(|body| {
        Body::new(Drip {
            body,
            left: Bytes::new(),
            pause,
            sleep: Box::pin(clock::sleep(pause)),
        })
    })
}

struct Drip {
    body: Body,
    left: Bytes,
    pause: Duration,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl http_body::Body for Drip {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.left.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.left = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        std::task::ready!(self.sleep.as_mut().poll(cx));
        self.sleep = Box::pin(clock::sleep(self.pause));
        let drop = self.left.slice(..1);
        self.left.advance(1);
        Poll::Ready(Some(Ok(Frame::data(drop))))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
