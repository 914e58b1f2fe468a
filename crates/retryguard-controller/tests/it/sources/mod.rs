//! Sources against real HTTP servers of this test's own, which answer as the test instructs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod prometheus;
mod scrape;

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
};
use retryguard_controller::config::Config;
use retryguard_controller::reconcile::source::Source;
use retryguard_controller::start;

/// What a server says, and what it was asked.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) status: u16,
    pub(crate) queries: Vec<String>,
    pub(crate) tokens: Vec<String>,
    /// Answers by the first of these that the query contains.
    pub(crate) by_query: Vec<(&'static str, String)>,
}

pub(crate) type Server = Arc<Mutex<Said>>;

/// Serves on a free port of loopback; its address.
pub(crate) async fn serve() -> (Server, String) {
    let server = Server::default();
    server.lock().unwrap().status = 200;
    let app = Router::new().fallback(answer).with_state(Arc::clone(&server));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (server, address)
}

async fn answer(
    State(server): State<Server>,
    Query(query): Query<std::collections::HashMap<String, String>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let mut said = server.lock().unwrap();
    let asked = query.get("query").cloned().unwrap_or_default();
    let token = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    said.tokens.extend(token);
    let found = said.by_query.iter().find(|(part, _)| asked.contains(part));
    let text = found.map_or_else(|| said.text.clone(), |(_, text)| text.clone());
    said.queries.push(asked);
    (StatusCode::from_u16(said.status).unwrap(), text)
}

/// The only source of a configuration; `{address}` stands for the server's.
pub(crate) async fn source(text: &str, address: &str) -> Box<dyn Source> {
    let text = text.replace("{address}", address);
    let config = Config::parse(&text, std::path::Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    start::sources(&config).await.unwrap().pop().unwrap()
}
