//! A request body that can be sent again.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::patience::Patience;
use crate::error::BoxError;

/// The body of one attempt.
///
/// The first attempt streams the original body through and keeps a copy of what has passed, up to a limit.
/// The next attempt begins with the copy and goes on with what is left of the original. A body that grows
/// beyond the limit is passed on but no longer kept, and then there is no other attempt: a request is never
/// half-sent again.
///
/// An attempt that is given up while its body is still being sent ends with [`Superseded`], so that its connection
/// is closed, or its stream reset, and not left waiting for the rest.
pub struct ReplayBody<B> {
    source: Source<B>,
    /// How long the body of the response may take, for [`Peek`](super::Peek), which sees both.
    pub(super) patience: Patience,
    /// Whether the request is one of gRPC, for the same: only the answers to those are read ahead.
    pub(super) grpc: bool,
}

/// The error of a request body whose attempt was replaced by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this attempt was given up: another one sends the rest of the body")]
pub struct Superseded;

enum Source<B> {
    /// Nothing at all; needs no memory.
    Empty,
    /// Passed through and not kept.
    Once(Pin<Box<B>>),
    /// Kept while it passes. On the heap, so that requests without a body stay small: a request is moved several times.
    Kept(Box<Reader<B>>),
}

struct Reader<B> {
    shared: Arc<Mutex<Kept<B>>>,
    /// Which attempt this is.
    attempt: u32,
    /// How many frames of the copy it has sent.
    sent: usize,
    trailers_sent: bool,
}

/// The original and the copy of what has passed.
struct Kept<B> {
    rest: Option<Pin<Box<B>>>,
    passed: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    bytes: usize,
    limit: usize,
    /// The body was longer than the limit, or broke: the copy is worthless.
    lost: bool,
    /// The attempt that reads the original: the latest. One that was given up, and is still polled by its
    /// connection for a moment, must not take frames away from its successor.
    reader: u32,
    /// Who waits for the original, to be told when it has become another's.
    waiting: Option<Waker>,
}

/// What is kept of a request's body so that attempts can be made from it.
pub(super) struct ReplaySource<B>(Option<Origin<B>>);

enum Origin<B> {
    Empty,
    Once(Pin<Box<B>>),
    Kept(Arc<Mutex<Kept<B>>>),
}

impl<B: Body<Data = Bytes>> ReplaySource<B> {
    /// Keeps up to `limit` bytes; zero for a body that is sent once.
    #[inline]
    pub(super) fn new(body: B, limit: usize) -> Self {
        if body.is_end_stream() {
            return Self(Some(Origin::Empty));
        }
        let body_is_too_long = body.size_hint().lower() > limit as u64;
        let body = Box::pin(body);
        if limit == 0 || body_is_too_long {
            return Self(Some(Origin::Once(body)));
        }
        let kept = Kept {
            rest: Some(body),
            passed: Vec::new(),
            trailers: None,
            bytes: 0,
            limit,
            lost: false,
            reader: 0,
            waiting: None,
        };
        Self(Some(Origin::Kept(Arc::new(Mutex::new(kept)))))
    }

    /// Whether another attempt can be made.
    #[inline]
    pub(super) fn can_replay(&self) -> bool {
        match &self.0 {
            Some(Origin::Empty) => true,
            Some(Origin::Kept(shared)) => !lock(shared).lost,
            Some(Origin::Once(_)) | None => false,
        }
    }

    /// Whether all of the body is known, so that two attempts can send it side by side.
    pub(super) fn is_complete(&self) -> bool {
        match &self.0 {
            Some(Origin::Empty) => true,
            Some(Origin::Kept(shared)) => {
                let kept = lock(shared);
                kept.rest.is_none() && !kept.lost
            }
            Some(Origin::Once(_)) | None => false,
        }
    }

    /// The body of the first attempt, which there always is.
    #[inline]
    pub(super) fn first(&mut self) -> ReplayBody<B> {
        let source = match &self.0 {
            Some(Origin::Empty) | None => Source::Empty,
            Some(Origin::Once(_) | Origin::Kept(_)) => self.next_source().unwrap_or(Source::Empty),
        };
        ReplayBody {
            source,
            patience: Patience::NONE,
            grpc: false,
        }
    }

    /// The body of the next attempt; `None` where there can be none.
    pub(super) fn attempt(&mut self, patience: Patience) -> Option<ReplayBody<B>> {
        let source = self.next_source()?;
        Some(ReplayBody {
            source,
            patience,
            grpc: false,
        })
    }

    fn next_source(&mut self) -> Option<Source<B>> {
        match self.0.take()? {
            Origin::Empty => {
                self.0 = Some(Origin::Empty);
                Some(Source::Empty)
            }
            Origin::Once(body) => Some(Source::Once(body)),
            Origin::Kept(shared) => {
                let mut kept = lock(&shared);
                if kept.lost {
                    return None;
                }
                kept.reader = kept.reader.wrapping_add(1);
                let attempt = kept.reader;
                let waiting = kept.waiting.take();
                drop(kept);
                waiting.into_iter().for_each(Waker::wake);
                let reader = Reader {
                    shared: shared.clone(),
                    attempt,
                    sent: 0,
                    trailers_sent: false,
                };
                self.0 = Some(Origin::Kept(shared));
                Some(Source::Kept(Box::new(reader)))
            }
        }
    }
}

impl<B> Body for ReplayBody<B>
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
        match &mut self.get_mut().source {
            Source::Empty => Poll::Ready(None),
            Source::Once(body) => body.as_mut().poll_frame(cx).map_err(Into::into),
            Source::Kept(reader) => reader.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Once(body) => body.is_end_stream(),
            Source::Kept(reader) => {
                let kept = lock(&reader.shared);
                kept.rest.is_none()
                    && reader.sent >= kept.passed.len()
                    && (reader.trailers_sent || kept.trailers.is_none())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Once(body) => body.size_hint(),
            Source::Kept(reader) => {
                let kept = lock(&reader.shared);
                let ahead: u64 = kept
                    .passed
                    .iter()
                    .skip(reader.sent)
                    .map(|bytes| bytes.len() as u64)
                    .sum();
                let rest = kept
                    .rest
                    .as_ref()
                    .map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
                let mut hint = SizeHint::new();
                hint.set_lower(ahead.saturating_add(rest.lower()));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(ahead)) {
                    hint.set_upper(upper);
                }
                hint
            }
        }
    }
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut kept = lock(&self.shared);
        // A body that is known whole can be sent by two attempts at once; the rest of one that is not belongs to the
        // latest attempt alone.
        if kept.rest.is_some() && kept.reader != self.attempt {
            return Poll::Ready(Some(Err(Superseded.into())));
        }
        if let Some(bytes) = kept.passed.get(self.sent) {
            self.sent += 1;
            return Poll::Ready(Some(Ok(Frame::data(bytes.clone()))));
        }
        let Poll::Ready(frame) = kept.poll_rest(cx) else {
            kept.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        };
        match frame {
            Some(Ok(frame)) => {
                self.sent = kept.passed.len();
                self.trailers_sent |= frame.is_trailers();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            None if self.trailers_sent => Poll::Ready(None),
            None => {
                self.trailers_sent = true;
                Poll::Ready(
                    kept.trailers
                        .clone()
                        .map(|trailers| Ok(Frame::trailers(trailers))),
                )
            }
        }
    }
}

impl<B: Body<Data = Bytes>> Kept<B> {
    /// The next frame of the original, kept as it passes.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        let frame = ready!(rest.as_mut().poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.keep(data.clone());
                } else if let Some(trailers) = frame.trailers_ref() {
                    self.trailers = Some(trailers.clone());
                }
                if self.rest.as_ref().is_some_and(Body::is_end_stream) {
                    self.rest = None;
                }
            }
            Some(Err(_)) => {
                self.lost = true;
                self.rest = None;
            }
            None => self.rest = None,
        }
        Poll::Ready(frame)
    }

    fn keep(&mut self, data: Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > self.limit {
            self.lost = true;
            self.passed = Vec::new();
        }
        if !self.lost {
            self.passed.push(data);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full, StreamBody};

    type Frames = Vec<Result<Frame<Bytes>, std::io::Error>>;

    fn chunks(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = std::io::Error> + use<> {
        let frames: Frames = parts
            .iter()
            .map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes()))))
            .collect();
        StreamBody::new(tokio_stream(frames))
    }

    fn tokio_stream(
        frames: Frames,
    ) -> impl futures_core::Stream<Item = Result<Frame<Bytes>, std::io::Error>> {
        struct Items(std::vec::IntoIter<Result<Frame<Bytes>, std::io::Error>>);
        impl futures_core::Stream for Items {
            type Item = Result<Frame<Bytes>, std::io::Error>;
            fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(self.0.next())
            }
        }
        Items(frames.into_iter())
    }

    async fn whole<B>(body: ReplayBody<B>) -> Bytes
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_body_that_was_sent_whole_is_sent_again_whole() {
        let mut source = ReplaySource::new(chunks(&["one ", "two ", "three"]), 100);
        for _ in 0..3 {
            assert_eq!(
                whole(source.attempt(Patience::NONE).unwrap()).await,
                "one two three"
            );
        }
        assert!(source.is_complete());
    }

    #[tokio::test]
    async fn a_half_sent_body_is_continued_by_the_next_attempt_and_not_by_the_old_one() {
        let mut source = ReplaySource::new(chunks(&["one ", "two ", "three"]), 100);
        let mut first = Box::pin(source.attempt(Patience::NONE).unwrap());
        assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "one ");
        let second = source.attempt(Patience::NONE).unwrap();
        let error = first.frame().await.unwrap().unwrap_err();
        assert!(error.is::<Superseded>(), "it was given up");
        assert_eq!(whole(second).await, "one two three");
    }

    /// The body of an attempt that was given up returned `Pending` without keeping the waker: its connection waited for ever.
    #[tokio::test]
    async fn an_attempt_that_waits_for_the_body_is_told_that_it_is_given_up() {
        struct Silent;
        impl futures_core::Stream for Silent {
            type Item = Result<Frame<Bytes>, std::io::Error>;
            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Pending
            }
        }
        let mut source = ReplaySource::new(StreamBody::new(Silent), 100);
        let mut first = Box::pin(source.attempt(Patience::NONE).unwrap());
        let waits = tokio::spawn(async move { first.frame().await });
        tokio::task::yield_now().await;
        let _second = source.attempt(Patience::NONE).unwrap();
        let error = waits.await.unwrap().unwrap().unwrap_err();
        assert!(error.is::<Superseded>());
    }

    /// Bodies that cannot be replayed must not be half-sent again.
    #[tokio::test]
    async fn a_body_beyond_the_limit_is_sent_once_and_whole() {
        let mut source = ReplaySource::new(chunks(&["12345", "6"]), 5);
        assert_eq!(whole(source.attempt(Patience::NONE).unwrap()).await, "123456");
        assert!(!source.can_replay());
        assert!(source.attempt(Patience::NONE).is_none());
        let mut source = ReplaySource::new(chunks(&["12345"]), 5);
        assert_eq!(whole(source.attempt(Patience::NONE).unwrap()).await, "12345");
        assert!(source.can_replay(), "exactly at the limit");
    }

    #[tokio::test]
    async fn a_body_of_known_length_beyond_the_limit_is_not_copied_at_all() {
        let mut source = ReplaySource::new(Full::from("123456"), 5);
        assert!(!source.can_replay());
        let body = source.attempt(Patience::NONE).unwrap();
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(whole(body).await, "123456");
    }

    #[tokio::test]
    async fn a_replay_knows_its_length() {
        let mut source = ReplaySource::new(Full::from("123456"), 10);
        assert_eq!(
            source.attempt(Patience::NONE).unwrap().size_hint().exact(),
            Some(6)
        );
        whole(source.attempt(Patience::NONE).unwrap()).await;
        let again = source.attempt(Patience::NONE).unwrap();
        assert_eq!(again.size_hint().exact(), Some(6));
        assert!(!again.is_end_stream());
    }

    #[tokio::test]
    async fn trailers_are_sent_again_too() {
        let mut trailers = HeaderMap::new();
        trailers.insert("checksum", "7".parse().unwrap());
        let frames = vec![
            Ok(Frame::data(Bytes::from_static(b"x"))),
            Ok(Frame::trailers(trailers)),
        ];
        let mut source = ReplaySource::new(StreamBody::new(tokio_stream(frames)), 10);
        for _ in 0..2 {
            let collected = source.attempt(Patience::NONE).unwrap().collect().await.unwrap();
            assert_eq!(collected.trailers().unwrap()["checksum"], "7");
        }
    }

    #[tokio::test]
    async fn a_body_that_broke_is_not_sent_again() {
        let frames = vec![
            Ok(Frame::data(Bytes::from_static(b"x"))),
            Err(std::io::Error::other("broken")),
        ];
        let mut source = ReplaySource::new(StreamBody::new(tokio_stream(frames)), 10);
        assert!(source.attempt(Patience::NONE).unwrap().collect().await.is_err());
        assert!(!source.can_replay());
    }
}
