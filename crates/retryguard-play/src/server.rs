//! The server of the page. It listens on this machine only.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, bail};
use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse as _, Response},
    routing::{get, post},
};
use retryguard_sim::client_policy::NAMES;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{answer, diagnostics, policies, storms, world::SLIDERS};

const PAGE: &str = include_str!("page.html");

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the server. Needs a Tokio runtime.
///
/// # Errors
/// If the address is not of this machine, or cannot be listened on.
pub async fn serve(address: SocketAddr) -> anyhow::Result<Server> {
    if !address.ip().is_loopback() {
        bail!("the page is for this machine only: give an address such as 127.0.0.1:8080");
    }
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    // One simulation at a time: it uses every core, and a slider asks for many.
    let router = Router::new()
        .route("/", get(page))
        .route("/api/run", post(run))
        .route("/api/lint", post(lint))
        .with_state(Arc::new(Semaphore::new(1)))
        .layer(middleware::from_fn(only_this_machine));
    let task = tokio::spawn(async move {
        // Ends when the task is dropped.
        let _ = axum::serve(listener, router).await;
    });
    Ok(Server { address, task })
}

/// Refuses requests under a foreign host name: a page of elsewhere could point its name at this machine.
async fn only_this_machine(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if !matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
        return (StatusCode::FORBIDDEN, "this page is for this machine only\n").into_response();
    }
    next.run(request).await
}

async fn page() -> (HeaderMap, Html<String>) {
    let mut headers = HeaderMap::new();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:";
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        header::HeaderValue::from_static(policy),
    );
    let sliders: Vec<Value> = SLIDERS
        .iter()
        .map(|(key, least, most, usual)| json!({"key": key, "least": least, "most": most, "usual": usual}))
        .collect();
    let known: Vec<Value> = NAMES
        .iter()
        .map(|(name, about)| json!({"name": name, "about": about}))
        .collect();
    let data = json!({"storms": storms(), "sliders": sliders, "known": known, "most": policies::MOST});
    // A script must not end inside its own data.
    let data = data.to_string().replace("</", "<\\/");
    (headers, Html(PAGE.replace("\"@DATA@\"", &data)))
}

async fn run(State(turn): State<Arc<Semaphore>>, Json(request): Json<Value>) -> Response {
    let Ok(_turn) = turn.acquire().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    match tokio::task::spawn_blocking(move || answer(&request)).await {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(message)) => (StatusCode::BAD_REQUEST, Json(json!({"error": message}))).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn lint(Json(request): Json<Value>) -> Json<Value> {
    Json(diagnostics(request["text"].as_str().unwrap_or_default()))
}
