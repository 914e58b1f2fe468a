//! The operator's port: `/metrics`, `/healthz`, `/readyz`, `/status`.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::adapters::http::connections::{Limits, Share};
use crate::adapters::http::{Port, guarded, serve};
use crate::adapters::start_error::StartError;
use crate::config::listen::Listen;
use crate::reconcile::control_loop::{Query, QuerySender};

/// How long the loop may take to answer before it does not look well.
const PATIENCE: Duration = Duration::from_secs(2);

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
        .with_state(queries);
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

async fn metrics(State(queries): State<QuerySender>) -> Response {
    match query(&queries, Query::Metrics).await {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => stuck(),
    }
}

async fn status_page(State(queries): State<QuerySender>) -> Response {
    match query(&queries, Query::Status).await {
        Some(status) => axum::Json(status).into_response(),
        None => stuck(),
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

fn stuck() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the loop does not answer\n").into_response()
}
