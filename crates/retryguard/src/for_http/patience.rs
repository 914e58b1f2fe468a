//! How long the body of a response may take.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use retryguard_core::time::nanos;
use tokio::time::{Instant, Sleep};

use crate::clock::{self, Moment};

/// How long a reader waits for the frames of a body. Two words, because it travels with every request and every response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Nanoseconds for one frame; [`Patience::ENDLESS`] for any time.
    pause: u64,
    /// For all of it.
    until: Moment,
}

impl Patience {
    pub(crate) const NONE: Self = Self {
        pause: Self::ENDLESS,
        until: Moment::NEVER,
    };
    const ENDLESS: u64 = u64::MAX;

    /// `pause` for one frame, and `until` for all of them.
    #[inline]
    pub(crate) fn new(pause: Option<Duration>, until: Option<Instant>) -> Self {
        Self {
            pause: pause.map_or(Self::ENDLESS, nanos),
            until: until.map_or(Moment::NEVER, Moment::of),
        }
    }

    /// When the next frame is late, by now.
    fn next(self) -> Option<Instant> {
        let next = (self.pause != Self::ENDLESS).then(|| clock::after(Duration::from_nanos(self.pause)));
        match (next, self.until.instant()) {
            (Some(next), Some(until)) => Some(next.min(until)),
            (next, until) => next.or(until),
        }
    }
}

/// A body was given up: the next frame did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the body did not come in time")]
pub struct BodyTimedOut {
    /// What gRPC calls it. tonic looks for it in the chain of sources.
    #[cfg(feature = "tonic")]
    #[source]
    status: tonic::Status,
}

impl BodyTimedOut {
    #[cold]
    fn new() -> Self {
        Self {
            #[cfg(feature = "tonic")]
            status: tonic::Status::deadline_exceeded("the rest of the stream did not come in time"),
        }
    }
}

/// The wait for the next frame. The timer is made by the first frame that has to be waited for, so that a body which is
/// all there costs nothing.
#[derive(Debug)]
pub(crate) struct Pause {
    patience: Patience,
    sleep: Option<Pin<Box<Sleep>>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Waiting,
    Over,
}

impl Pause {
    pub(crate) const fn new(patience: Patience) -> Self {
        Self {
            patience,
            sleep: None,
            state: State::Reading,
        }
    }

    /// Whether the body was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// A frame has come.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.state = State::Reading;
    }

    /// No frame is there: is it too late for one?
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<BodyTimedOut> {
        if self.state == State::Reading {
            let Some(until) = self.patience.next() else {
                return Poll::Pending;
            };
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(until),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(until))),
            }
            self.state = State::Waiting;
        }
        let Some(sleep) = &mut self.sleep else {
            return Poll::Pending;
        };
        ready!(sleep.as_mut().poll(cx));
        self.state = State::Over;
        Poll::Ready(BodyTimedOut::new())
    }
}

#[cfg(feature = "reqwest")]
pub(crate) use patient::PatientBody;

#[cfg(feature = "reqwest")]
mod patient {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use http_body::{Body, Frame, SizeHint};
    use pin_project_lite::pin_project;

    use super::{Patience, Pause};
    use crate::error::BoxError;

    pin_project! {
        /// A body that is given up when its next frame does not come in time.
        pub(crate) struct PatientBody<B> {
            #[pin]
            body: B,
            pause: Pause,
        }
    }

    impl<B> PatientBody<B> {
        pub(crate) const fn new(body: B, patience: Patience) -> Self {
            Self {
                body,
                pause: Pause::new(patience),
            }
        }
    }

    impl<B> Body for PatientBody<B>
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
            match this.body.poll_frame(cx) {
                Poll::Ready(frame) => {
                    this.pause.end();
                    Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
                }
                Poll::Pending => this.pause.poll(cx).map(|late| Some(Err(late.into()))),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.pause.is_over() || self.body.is_end_stream()
        }

        fn size_hint(&self) -> SizeHint {
            self.body.size_hint()
        }
    }
}
