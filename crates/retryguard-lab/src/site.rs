//! Where a service stands: everything that it is given, and the layers around its routes.

pub(crate) mod client;
mod drip;
pub(crate) mod life;
pub(crate) mod line;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use http::header;
use retryguard::{Policy, for_http::tags, server::ServerLayer};
use retryguard_store::idempotency::IDEMPOTENCY_REPLAYED;
use tokio::sync::Semaphore;

use client::Downstream;
use life::Life;
use line::ConnectionCutter;

use crate::{
    answer::{LARGEST_BODY, Problem, unknown_path, wrong_method},
    chance::SharedRandom,
    clock,
    counts::Counts,
    database::Database,
    faults::{AdminSite, Faults, Kind, admin},
    name::Name,
    openapi,
    settings::Settings,
    trace::{self, Span},
};

/// How the answers of the idempotency layer's own are marked.
const PROBLEM: header::HeaderValue = header::HeaderValue::from_static("application/problem+json");

/// What every service is given.
#[derive(Clone)]
pub struct Site {
    /// Which service it is.
    pub name: Name,
    /// What the system was started with.
    pub settings: Arc<Settings>,
    /// The policy, at the system's scale.
    pub policy: Arc<Policy>,
    /// Where things are counted.
    pub counts: Arc<Counts>,
    /// What is broken.
    pub faults: Faults,
    /// How long this incarnation lives.
    pub life: Life,
    /// The chance of the service's own work.
    pub dice: Arc<SharedRandom>,
    /// Its database.
    pub database: Database,
    /// Where the others are.
    pub peers: Arc<BTreeMap<Name, SocketAddr>>,
    /// The token of the admin interface.
    pub token: Arc<str>,
    /// The connections of its client.
    pub connections: Arc<Semaphore>,
}

impl Site {
    /// A client of another service.
    ///
    /// # Errors
    /// Where the other service has no address.
    pub fn downstream(&self, to: Name) -> anyhow::Result<Downstream> {
        let address = self
            .peers
            .get(&to)
            .ok_or_else(|| anyhow::anyhow!("{} calls {to}, which has no address: give one", self.name))?;
        let counts = self
            .counts
            .edge(self.name, to)
            .ok_or_else(|| anyhow::anyhow!("{} does not call {to}", self.name))?;
        Ok(Downstream::new(
            self.name.as_str(),
            &self.policy,
            to.as_str(),
            *address,
            self.connections.clone(),
            counts.clone(),
        ))
    }

    /// Whether calls to a service carry keys, and the service honours them.
    #[must_use]
    pub fn has_keys(&self, name: Name) -> bool {
        self.policy.service(name.as_str()).idempotency.add_keys
    }

    /// The service's routes inside its layers, and beside them what is neither shed nor broken: health, metrics,
    /// the description, the admin interface.
    pub(crate) fn surround(&self, routes: Router) -> Router {
        let work = routes
            .fallback(unknown_path)
            .method_not_allowed_fallback(wrong_method)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(ServerLayer::new(&self.policy, self.name.as_str()))
            .layer(from_fn_with_state(self.clone(), break_answers))
            .layer(from_fn_with_state(self.clone(), observe));
        let admin = admin(AdminSite {
            name: self.name,
            faults: self.faults.clone(),
            counts: self.counts.clone(),
            token: self.token.clone(),
        });
        let beside = Router::new()
            .route("/healthz", get(async || "well\n"))
            .route("/metrics", get(metrics))
            .route("/openapi.json", get(describe))
            .method_not_allowed_fallback(wrong_method)
            .with_state(self.clone());
        Router::new()
            .nest_service("/admin", reprefixed(admin))
            .merge(beside)
            .fallback_service(work)
    }
}

/// `nest_service` cuts the prefix off; the admin interface's own routes carry it.
fn reprefixed(admin: Router) -> Router {
    Router::new().fallback(async move |mut request: Request| {
        let path = format!(
            "/admin{}",
            request.uri().path_and_query().map_or("", |path| path.as_str())
        );
        if let Ok(uri) = path.trim_end_matches('/').parse() {
            *request.uri_mut() = uri;
        }
        tower::ServiceExt::oneshot(admin.clone(), request).await
    })
}

async fn metrics(State(site): State<Site>) -> Response {
    let text = site.counts.text(site.name) + &crate::recorder::text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn describe(State(site): State<Site>) -> Response {
    axum::Json(openapi::describe(site.name)).into_response()
}

/// Outermost: counts what arrives and what is answered, ends the span, writes the log line.
async fn observe(State(site): State<Site>, request: Request, next: Next) -> Response {
    let counts = site.counts.service(site.name);
    counts.arrived.increment();
    if tags::Received::read(request.headers()).again() {
        counts.again.increment();
    }
    let span = Span::arriving(request.headers());
    let began = clock::now();
    let method = request.method().clone();
    let route = openapi::route(site.name, request.uri().path());
    let response = span.scope(next.run(request)).await;
    let took = clock::now() - began;
    let status = response.status().as_u16();
    counts.answered(route, method.as_str(), status, took);
    if response.headers().contains_key(tags::DO_NOT_RETRY) {
        counts.shed.increment();
    }
    if response.headers().contains_key(IDEMPOTENCY_REPLAYED) {
        counts.replayed.increment();
    }
    if response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM) && matches!(status, 409 | 422) {
        counts.conflicts.increment();
    }
    tracing::info!(
        target: "retryguard_lab::request",
        service = site.name.as_str(),
        route,
        method = method.as_str(),
        status,
        millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        trace_id = span.trace_id(),
    );
    trace::end(|| trace::Ended {
        span,
        service: site.name.as_str(),
        name: format!("{method} {route}"),
        client: false,
        began: clock::wall_nanos().saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(0)),
        took,
        status,
        attempt: 0,
    });
    response
}

/// Tears connections and lets answers drip.
async fn break_answers(State(site): State<Site>, request: Request, next: Next) -> Response {
    let scissors = request.extensions().get::<ConnectionCutter>().cloned();
    let response = next.run(request).await;
    if site.faults.strikes(Kind::Reset, site.name)
        && let Some(scissors) = scissors
    {
        scissors.cut();
        return Problem::unavailable("torn").into_response();
    }
    if site.faults.strikes(Kind::Drip, site.name) {
        return drip::slow(response, &site);
    }
    response
}
