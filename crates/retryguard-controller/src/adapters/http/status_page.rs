//! The operator's port: `/metrics`, `/healthz`, `/readyz`, `/status`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::adapters::http::connections::{Limits, Share};
use crate::adapters::http::{Port, guarded, serve};
use crate::adapters::start_error::StartError;
use crate::config::listen::Listen;
use crate::reconcile::control_loop::{Query, QuerySender};

/// How long the loop may take to answer before it does not look well.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many pages the loop is asked for at once. With thousands of targets each takes it a while, and health must not wait for the
/// pages of every client.
const PAGES_AT_ONCE: usize = 2;

/// The most connections to the operator's port.
const MOST_CONNECTIONS: usize = 256;

/// Starts the operator's port. Health needs no token, because probes carry none; the other pages do,
/// where one is configured.
pub async fn status(listen: &Listen, queries: QuerySender) -> Result<Port, StartError> {
    let open = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(queries.clone());
    let closed = Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status_page))
        .with_state(Pages {
            queries,
            at_once: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
        });
    let closed = guarded("status", listen, closed)?;
    let limits = Limits::new(MOST_CONNECTIONS, Share::Eighth);
    serve("status", listen, limits, open.merge(closed)).await
}

async fn healthz(State(queries): State<QuerySender>) -> Response {
    match query(&queries, Query::Ready).await {
        Some(_) => "ok\n".into_response(),
        None => stuck(),
    }
}

async fn readyz(State(queries): State<QuerySender>) -> Response {
    match query(&queries, Query::Ready).await {
        Some(true) => "ready\n".into_response(),
        Some(false) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: no leadership known or no round yet\n",
        )
            .into_response(),
        None => stuck(),
    }
}

/// The loop, and the turns of those that ask it for pages.
#[derive(Clone)]
struct Pages {
    queries: QuerySender,
    at_once: Arc<Semaphore>,
}

impl Pages {
    async fn query<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let turn = timeout(PATIENCE, self.at_once.acquire()).await;
        let _turn = turn.ok()?.ok()?;
        query(&self.queries, question).await
    }
}

async fn metrics(State(pages): State<Pages>) -> Response {
    match pages.query(Query::Metrics).await {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => busy(),
    }
}

async fn status_page(State(pages): State<Pages>) -> Response {
    match pages.query(Query::Status).await {
        Some(status) => axum::Json(status).into_response(),
        None => busy(),
    }
}

async fn query<T>(
    queries: &mpsc::Sender<Query>,
    question: impl FnOnce(oneshot::Sender<T>) -> Query,
) -> Option<T> {
    let (send, answer) = oneshot::channel();
    timeout(PATIENCE, async {
        queries.send(question(send)).await.ok()?;
        answer.await.ok()
    })
    .await
    .ok()
    .flatten()
}

fn busy() -> Response {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "too many clients ask for pages, or the loop does not answer\n",
    )
        .into_response()
}

fn stuck() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the loop does not answer\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred clients ask for pages of a loop that takes its time. Health was behind all of them, also those that had given up.
    #[tokio::test(start_paused = true)]
    async fn health_does_not_wait_for_the_pages_of_every_client() {
        let (queries, mut asked) = mpsc::channel(64);
        let pages = Pages {
            queries: queries.clone(),
            at_once: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
        };
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let pages = pages.clone();
                tokio::spawn(async move { status_page(State(pages)).await.status() })
            })
            .collect();
        crate::clock::sleep(Duration::from_millis(1)).await;
        let health = tokio::spawn(async move { healthz(State(queries)).await.status() });
        let mut made = 0;
        while !health.is_finished() {
            match asked.recv().await.unwrap() {
                Query::Status(answer) => {
                    crate::clock::sleep(Duration::from_millis(700)).await;
                    drop(answer.send(serde_json::Value::Null));
                    made += 1;
                }
                Query::Ready(answer) => drop(answer.send(true)),
                Query::Metrics(_) => {}
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(health.await.unwrap(), StatusCode::OK);
        assert_eq!(made, PAGES_AT_ONCE);
        drop(asked);
        for client in clients {
            let status = client.await.unwrap();
            assert!(status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}
