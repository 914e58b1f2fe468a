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

use crate::{
    config::listen::Listen,
    http::{
        Port,
        connections::{Limits, Share},
        guarded, serve,
    },
    run::{Ask, Asking},
    start::StartError,
};

/// How long the loop may take to answer before it does not look well.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most connections to the operator's port.
const MOST_CONNECTIONS: usize = 256;

/// Starts the operator's port. Health is answered to everybody, for probes carry no token; the rest only to who
/// has it, where one is configured.
pub async fn status(listen: &Listen, asking: Asking) -> Result<Port, StartError> {
    let open = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(asking.clone());
    let closed = Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status_page))
        .with_state(asking);
    let closed = guarded("status", listen, closed)?;
    let limits = Limits::new(MOST_CONNECTIONS, Share::Eighth);
    serve("status", listen, limits, open.merge(closed)).await
}

async fn healthz(State(asking): State<Asking>) -> Response {
    match ask(&asking, Ask::Ready).await {
        Some(_) => "ok\n".into_response(),
        None => stuck(),
    }
}

async fn readyz(State(asking): State<Asking>) -> Response {
    match ask(&asking, Ask::Ready).await {
        Some(true) => "ready\n".into_response(),
        Some(false) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: no verdict or no round yet\n",
        )
            .into_response(),
        None => stuck(),
    }
}

async fn metrics(State(asking): State<Asking>) -> Response {
    match ask(&asking, Ask::Metrics).await {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => stuck(),
    }
}

async fn status_page(State(asking): State<Asking>) -> Response {
    match ask(&asking, Ask::Status).await {
        Some(status) => axum::Json(status).into_response(),
        None => stuck(),
    }
}

async fn ask<T>(asking: &mpsc::Sender<Ask>, question: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
    let (send, answer) = oneshot::channel();
    timeout(PATIENCE, async {
        asking.send(question(send)).await.ok()?;
        answer.await.ok()
    })
    .await
    .ok()
    .flatten()
}

fn stuck() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the loop does not answer\n").into_response()
}
