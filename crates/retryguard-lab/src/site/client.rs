//! How a service calls another: our layer and its policy around a plain HTTP client, counted on both sides.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use retryguard::{
    BoxedError, Error, Policy, Refusal, Report,
    for_http::{Http, HttpLayer, HttpService, ReplayBody, tags},
};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::{
    clock,
    counts::EdgeCounts,
    trace::{self, Span},
};

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 1 << 20;

type Sent = Request<ReplayBody<Full<Bytes>>>;

/// Why an attempt has no answer.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The request could not be sent, or no head came back.
    #[error(transparent)]
    Client(#[from] hyper_util::client::legacy::Error),
    /// The body of the answer broke off, or was too long.
    #[error("the answer broke off: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The other service as one service sees it.
#[derive(Clone)]
pub struct Downstream {
    service: HttpService<Wire>,
    address: SocketAddr,
    counts: Arc<EdgeCounts>,
}

/// What a call came to.
pub(crate) type Answer = Result<(StatusCode, HeaderMap, Bytes), Error<BoxedError>>;

impl Downstream {
    /// A client of `target` under a policy. `connections` is shared by all clients of the calling service.
    #[must_use]
    pub fn new(
        from: &'static str,
        policy: &Policy,
        target: &str,
        address: SocketAddr,
        connections: Arc<Semaphore>,
        counts: Arc<EdgeCounts>,
    ) -> Self {
        let protocol = Http::new().client(from, env!("CARGO_PKG_VERSION"));
        let layer = HttpLayer::with(policy.service(target), protocol);
        counts.watch(layer.handle());
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        let wire = Wire {
            from,
            client,
            connections,
            counts: counts.clone(),
        };
        Self {
            service: layer.layer(wire),
            address,
            counts,
        }
    }

    /// Makes a call.
    pub async fn call(&self, method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Answer {
        self.counts.calls.increment();
        let began = clock::now();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        // A path that no address can carry is refused by the handlers before it comes here.
        *request.uri_mut() = format!("http://{}{path}", self.address)
            .parse()
            .unwrap_or_default();
        let answer = match self.service.clone().oneshot(request).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                if let Some((_, refusal)) = Report::of(&head.extensions).failed {
                    self.counts.refused(refusal);
                }
                match body.collect().await {
                    Ok(body) => Ok((head.status, head.headers, body.to_bytes())),
                    // The body was read whole before the answer was judged; only its reader's patience could end it.
                    Err(error) => Err(Error::Failed {
                        error: BoxedError::new(error),
                        attempts: 1,
                        refusal: Refusal::NotRetryable,
                        retry_after: None,
                        history: Vec::new(),
                    }),
                }
            }
            Err(error) => Err(error),
        };
        self.counts.took(clock::now() - began);
        self.count(&answer);
        answer
    }

    /// Sends a JSON body by POST, with a key where there is one.
    pub async fn post(&self, path: &str, key: Option<&str>, body: &impl serde::Serialize) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/json"),
        );
        if let Some(key) = key.and_then(|key| header::HeaderValue::from_str(key).ok()) {
            headers.insert("idempotency-key", key);
        }
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.call(Method::POST, path, headers, body.into()).await
    }

    fn count(&self, answer: &Answer) {
        match answer {
            Ok((status, ..)) if status.is_success() => self.counts.succeeded.increment(),
            Ok(_) => self.counts.failed.increment(),
            Err(error) => {
                self.counts.failed.increment();
                if let Error::Refused { refusal, .. }
                | Error::TimedOut { refusal, .. }
                | Error::Failed { refusal, .. } = error
                {
                    self.counts.refused(*refusal);
                }
                match error {
                    Error::Refused {
                        refusal: Refusal::BulkheadFull | Refusal::BulkheadTimeout,
                        ..
                    } => self.counts.bulkhead.increment(),
                    Error::Refused {
                        refusal: Refusal::BreakerOpen | Refusal::ProbesBusy,
                        ..
                    } => self.counts.breaker.increment(),
                    _ => {}
                }
            }
        }
    }
}

/// The HTTP client below the policy: one attempt, no opinion.
#[derive(Clone)]
pub(crate) struct Wire {
    from: &'static str,
    client: Client<HttpConnector, ReplayBody<Full<Bytes>>>,
    connections: Arc<Semaphore>,
    counts: Arc<EdgeCounts>,
}

impl Service<Sent> for Wire {
    type Response = Response<Full<Bytes>>;
    type Error = WireError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, WireError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        // The client below is always ready; connections are waited for with the attempt's time running.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Sent) -> Self::Future {
        let attempt = tags::Received::read(request.headers()).attempt;
        let span = Span::current().child();
        span.write(request.headers_mut());
        let name = format!("{} {}", request.method(), request.uri().path());
        let under_way = UnderWay {
            counts: self.counts.clone(),
            from: self.from,
            name,
            span,
            began: clock::now(),
            attempt,
            status: 0,
        };
        let wire = self.clone();
        Box::pin(async move {
            // Moved in whole: a capture of its one field that is written would leave its drop outside.
            let mut under_way = under_way;
            let Ok(_connection) = wire.connections.acquire().await else {
                unreachable!("the semaphore is never closed");
            };
            wire.counts.attempts.increment();
            if attempt > 1 {
                wire.counts.retries.increment();
            }
            let response = wire.client.request(request).await?;
            let (head, body) = response.into_parts();
            // Read whole, within the attempt's time: an answer that drips is an answer that has not come.
            let body = Limited::new(body, LARGEST_ANSWER)
                .collect()
                .await
                .map_err(WireError::Body)?;
            under_way.status = head.status.as_u16();
            Ok(Response::from_parts(head, Full::new(body.to_bytes())))
        })
    }
}

/// An attempt, until it is answered or given up; both are counted, and both end its span.
struct UnderWay {
    counts: Arc<EdgeCounts>,
    from: &'static str,
    name: String,
    span: Span,
    began: clock::Instant,
    attempt: u8,
    status: u16,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !(200..400).contains(&self.status) {
            self.counts.failures.increment();
        }
        trace::end(|| {
            let took = clock::now() - self.began;
            trace::Ended {
                span: self.span,
                service: self.from,
                name: std::mem::take(&mut self.name),
                client: true,
                began: clock::wall_nanos().saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(0)),
                took,
                status: self.status,
                attempt: self.attempt,
            }
        });
    }
}
