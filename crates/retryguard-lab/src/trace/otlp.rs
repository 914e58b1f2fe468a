//! Spans to a collector, as OTLP over HTTP in its JSON form: what every collector takes on port 4318.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{Ended, Sink};
use crate::clock;

/// The most spans that wait to be sent. Beyond it they are dropped: a collector that is slow must not slow the
/// services.
pub const MOST_WAITING: usize = 16_384;

/// The most spans of one request.
const MOST_AT_ONCE: usize = 512;

/// How long spans are gathered for one request, and how long a collector may take for it.
const GATHER: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends ended spans to a collector, in batches and beside the work.
#[derive(Debug)]
pub struct Otlp {
    queue: mpsc::Sender<Item>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    Span(Box<Ended>),
    /// Everything before it has been sent, or lost.
    Flush(oneshot::Sender<()>),
}

impl Otlp {
    /// An exporter to a collector's address, such as `http://127.0.0.1:4318`. Must be called within a runtime.
    ///
    /// # Errors
    /// Where the address is none, or wants encryption.
    pub fn start(url: &str) -> anyhow::Result<Arc<Self>> {
        let endpoint = endpoint(url)?;
        let (queue, items) = mpsc::channel(MOST_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let worker = Worker {
            client,
            endpoint,
            dropped: dropped.clone(),
            failing: false,
        };
        tokio::spawn(worker.run(items));
        Ok(Arc::new(Self { queue, dropped }))
    }

    /// Waits until everything that has ended so far is sent or lost.
    pub async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        if self.queue.send(Item::Flush(done)).await.is_ok() {
            // The worker lives as long as the queue.
            let _ = sent.await;
        }
    }

    /// Spans that were lost: to a full queue, or to a collector that did not take them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Sink for Otlp {
    fn take(&self, ended: Ended) {
        if self.queue.try_send(Item::Span(Box::new(ended))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn endpoint(url: &str) -> anyhow::Result<Uri> {
    let wrong = |why: &str| {
        anyhow::anyhow!("`{url}` {why}: give the address of a collector such as http://127.0.0.1:4318")
    };
    let uri: Uri = url.parse().map_err(|_| wrong("is not an address"))?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong("does not begin with http://"));
    }
    if uri.path() != "/" {
        return Ok(uri);
    }
    let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
    format!("http://{authority}/v1/traces")
        .parse()
        .map_err(|_| wrong("is not an address"))
}

struct Worker {
    client: Client<HttpConnector, Full<Bytes>>,
    endpoint: Uri,
    dropped: Arc<AtomicU64>,
    failing: bool,
}

impl Worker {
    async fn run(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(first) = items.recv().await {
            let (mut spans, mut waiting) = (Vec::new(), Vec::new());
            let end = clock::now() + GATHER;
            let mut next = Some(first);
            while let Some(item) = next {
                match item {
                    Item::Span(span) => spans.push(*span),
                    Item::Flush(done) => {
                        waiting.push(done);
                        break;
                    }
                }
                if spans.len() >= MOST_AT_ONCE {
                    break;
                }
                next = tokio::select! {
                    item = items.recv() => item,
                    () = clock::sleep_until(end) => None,
                };
            }
            self.send(&spans).await;
            for done in waiting {
                // The caller may have left.
                let _ = done.send(());
            }
        }
    }

    async fn send(&mut self, spans: &[Ended]) {
        if spans.is_empty() {
            return;
        }
        let outcome = match tokio::time::timeout(PATIENCE, self.post(spans)).await {
            Ok(outcome) => outcome,
            Err(_) => Err("no answer in time".to_owned()),
        };
        if let Err(why) = &outcome {
            self.dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
            // Once for each outage: a line for each batch would hide the other log lines.
            if !self.failing {
                tracing::warn!(endpoint = %self.endpoint, why, "spans are lost");
            }
        }
        self.failing = outcome.is_err();
    }

    async fn post(&self, spans: &[Ended]) -> Result<(), String> {
        let body = Full::new(Bytes::from(document(spans).to_string()));
        let request = Request::post(self.endpoint.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| error.to_string())?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| error.to_string())?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(format!("answered {}", response.status()))
    }
}

/// The request's body. Each service is a resource of its own, as collectors and their pages want it.
fn document(spans: &[Ended]) -> Value {
    let mut services: Vec<&str> = spans.iter().map(|ended| ended.service).collect();
    services.sort_unstable();
    services.dedup();
    let resources: Vec<Value> = services
        .into_iter()
        .map(|service| {
            let own: Vec<Value> = spans
                .iter()
                .filter(|ended| ended.service == service)
                .map(span)
                .collect();
            json!({
                "resource": {"attributes": [text("service.name", service)]},
                "scopeSpans": [{"scope": {"name": "retryguard-lab", "version": env!("CARGO_PKG_VERSION")}, "spans": own}],
            })
        })
        .collect();
    json!({"resourceSpans": resources})
}

fn span(ended: &Ended) -> Value {
    // The numbers of the protocol: 2 a server's span, 3 a client's; 2 the status of an error.
    const SERVER: u8 = 2;
    const CLIENT: u8 = 3;
    const ERROR: u8 = 2;
    let end = ended
        .began
        .saturating_add(u64::try_from(ended.took.as_nanos()).unwrap_or(u64::MAX));
    let mut attributes = vec![number("http.response.status_code", u64::from(ended.status))];
    if ended.client {
        attributes.push(number(
            "http.request.resend_count",
            u64::from(ended.attempt.saturating_sub(1)),
        ));
    }
    let failed = ended.status == 0 || ended.status >= 500;
    let mut span = json!({
        "traceId": format!("{:032x}", ended.span.trace),
        "spanId": format!("{:016x}", ended.span.id),
        "name": ended.name,
        "kind": if ended.client { CLIENT } else { SERVER },
        // Times of 64 bits are texts in this form.
        "startTimeUnixNano": ended.began.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": attributes,
        "status": if failed { json!({"code": ERROR}) } else { json!({}) },
    });
    if ended.span.parent != 0 {
        span["parentSpanId"] = format!("{:016x}", ended.span.parent).into();
    }
    span
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_or_refused() {
        assert_eq!(
            endpoint("http://127.0.0.1:4318").unwrap(),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(
            endpoint("http://[::1]:4318/own").unwrap(),
            "http://[::1]:4318/own"
        );
        for wrong in ["", "127.0.0.1:4318", "https://collector", "http://", "grpc://a:1"] {
            let told = endpoint(wrong).unwrap_err().to_string();
            assert!(told.contains("such as"), "{wrong}: {told}");
        }
    }

    /// Beyond the limit spans are dropped and counted; the services do not wait.
    #[tokio::test]
    async fn a_collector_that_does_not_come_costs_spans_and_nothing_else() {
        // No process listens on the discard port.
        let otlp = Otlp::start("http://127.0.0.1:9").unwrap();
        let ended = Ended {
            span: super::super::Span::root(),
            service: "gateway",
            name: "GET /".to_owned(),
            client: false,
            began: 0,
            took: Duration::ZERO,
            status: 200,
            attempt: 0,
        };
        for _ in 0..MOST_WAITING + 100 {
            otlp.take(ended.clone());
        }
        assert_eq!(otlp.dropped(), 100, "the queue is as long as it says");
        otlp.flush().await;
        assert_eq!(otlp.dropped(), MOST_WAITING as u64 + 100);
    }
}
