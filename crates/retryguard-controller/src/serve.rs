//! The operator's port: `/metrics`, `/healthz`, `/readyz`, `/status`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    config::listen::Listen,
    run::{Ask, Asking},
    secret::Secret,
    source::choose_tls,
    start::StartError,
};

/// How long the loop may take to answer before it does not look well.
const PATIENCE: Duration = Duration::from_secs(2);

/// A port that answers until it is dropped.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
}

impl Port {
    /// Where it listens; the port is chosen by the system where the configuration says 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

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
    serve("status", listen, open.merge(closed)).await
}

/// Asks for the token of a configuration, where it has one.
pub(crate) fn guarded(what: &'static str, listen: &Listen, router: Router) -> Result<Router, StartError> {
    let Some(path) = &listen.token_file else {
        return Ok(router);
    };
    let token = Secret::from_file(path).map_err(|error| StartError::File {
        what,
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(router.layer(middleware::from_fn_with_state(Arc::new(token), only_with_token)))
}

async fn only_with_token(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| token.matches(given)) {
        return next.run(request).await;
    }
    let wants = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, wants, "a token is needed\n").into_response()
}

/// Listens and answers, with TLS where the configuration has it.
pub(crate) async fn serve(what: &'static str, listen: &Listen, router: Router) -> Result<Port, StartError> {
    let cannot = |error: std::io::Error| StartError::Listen {
        what,
        address: listen.address.to_string(),
        reason: error.to_string(),
    };
    let listener = std::net::TcpListener::bind(listen.address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    if !address.ip().is_loopback() && listen.token_file.is_none() {
        tracing::warn!(target: "retryguard::controller", what, %address, "listens for everybody, without a token");
    }
    let handle = Handle::new();
    let service = router.into_make_service();
    match &listen.tls {
        None => {
            let server = axum_server::from_tcp(listener).map_err(cannot)?;
            tokio::spawn(server.handle(handle.clone()).serve(service));
        }
        Some(tls) => {
            choose_tls();
            let config = RustlsConfig::from_pem_file(&tls.certificate, &tls.key)
                .await
                .map_err(|error| StartError::File {
                    what,
                    path: format!("{} and {}", tls.certificate.display(), tls.key.display()),
                    reason: error.to_string(),
                })?;
            let server = axum_server::from_tcp_rustls(listener, config).map_err(cannot)?;
            tokio::spawn(server.handle(handle.clone()).serve(service));
        }
    }
    Ok(Port { address, handle })
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
