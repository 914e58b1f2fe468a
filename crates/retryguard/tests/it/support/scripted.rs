//! A service that answers by a script and remembers what it was asked.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use tokio::time::Instant;
use tower::Service;

use super::time;

/// What the service does with one attempt.
#[derive(Clone)]
pub(crate) struct Answer {
    after: Duration,
    reply: Reply,
}

#[derive(Clone)]
enum Reply {
    Status(u16, Vec<(String, String)>),
    Broken(std::io::ErrorKind),
    Silence,
}

/// Answers with a status at once.
pub(crate) fn status(status: u16) -> Answer {
    Answer {
        after: Duration::ZERO,
        reply: Reply::Status(status, Vec::new()),
    }
}

/// Breaks the connection.
pub(crate) fn broken(kind: std::io::ErrorKind) -> Answer {
    Answer {
        after: Duration::ZERO,
        reply: Reply::Broken(kind),
    }
}

/// Never answers.
pub(crate) fn silence() -> Answer {
    Answer {
        after: Duration::ZERO,
        reply: Reply::Silence,
    }
}

impl Answer {
    /// The same, this much later.
    pub(crate) fn after(mut self, millis: u64) -> Self {
        self.after = Duration::from_millis(millis);
        self
    }

    /// The same with a header.
    pub(crate) fn with(mut self, name: impl AsRef<str>, value: &str) -> Self {
        if let Reply::Status(_, headers) = &mut self.reply {
            headers.push((name.as_ref().to_owned(), value.to_owned()));
        }
        self
    }
}

/// One attempt as the service saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) headers: HeaderMap,
}

impl Seen {
    /// The text of a header; empty where it is not there.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("our headers are text"))
    }
}

/// Answers by a script, and with the last answer once the script is over.
#[derive(Clone)]
pub(crate) struct Scripted {
    inner: Arc<Inner>,
}

struct Inner {
    script: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    dropped: AtomicUsize,
    began: Instant,
}

pub(crate) type Reading = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, std::io::Error>> + Send>>;

impl Scripted {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            inner: Arc::new(Inner {
                script: Mutex::new(script.into_iter().collect()),
                seen: Mutex::default(),
                dropped: AtomicUsize::new(0),
                began: time::now(),
            }),
        }
    }

    /// Replaces the rest of the script.
    pub(crate) fn goes_on(&self, script: impl IntoIterator<Item = Answer>) {
        *self.inner.script.lock().unwrap() = script.into_iter().collect();
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }

    pub(crate) fn attempts(&self) -> usize {
        self.inner.seen.lock().unwrap().len()
    }

    /// How many attempts were dropped before they were answered.
    pub(crate) fn dropped(&self) -> usize {
        self.inner.dropped.load(Ordering::SeqCst)
    }
}

impl<B> Service<Request<B>> for Scripted {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = Reading;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Reading {
        let inner = self.inner.clone();
        inner.seen.lock().unwrap().push(Seen {
            at: inner.began.elapsed(),
            headers: request.headers().clone(),
        });
        let answer = {
            let mut script = inner.script.lock().unwrap();
            if script.len() > 1 {
                script.pop_front()
            } else {
                script.front().cloned()
            }
        };
        let answer = answer.expect("a script has at least one answer");
        let unanswered = Unanswered(Some(inner));
        Box::pin(async move {
            if !answer.after.is_zero() {
                time::sleep(answer.after.as_millis().try_into().expect("a short wait")).await;
            }
            let result = match answer.reply {
                Reply::Silence => std::future::pending().await,
                Reply::Broken(kind) => Err(kind.into()),
                Reply::Status(status, headers) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(Full::default()).expect("a scripted response"))
                }
            };
            unanswered.answered();
            result
        })
    }
}

/// Counts an attempt as dropped unless it was answered.
struct Unanswered(Option<Arc<Inner>>);

impl Unanswered {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            inner.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A request that may be sent twice.
pub(crate) fn get() -> Request<Full<Bytes>> {
    Request::get("http://it/")
        .body(Full::default())
        .expect("a plain request")
}

/// A request that may not.
pub(crate) fn post() -> Request<Full<Bytes>> {
    Request::post("http://it/")
        .body(Full::default())
        .expect("a plain request")
}
