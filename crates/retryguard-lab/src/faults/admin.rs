//! The admin interface: faults and capacity, for callers with the token.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Fault, Faults, Kind};
use crate::{
    answer::{Body, LARGEST_BODY, Problem, unknown_path, wrong_method},
    counts::{Counts, Reading},
    name::Name,
    settings::Capacity,
};

/// The longest time for which a fault can be asked for.
const LONGEST: Duration = Duration::from_secs(3600);

/// The most workers or places that a station can be given.
const MOST: usize = 100_000;

/// What the admin interface acts on.
#[derive(Clone)]
pub struct AdminSite {
    /// The service that serves it.
    pub name: Name,
    /// The faults.
    pub faults: Faults,
    /// Where the stations are.
    pub counts: Arc<Counts>,
    /// Who may.
    pub token: Arc<str>,
}

/// A fault as it is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    fault: String,
    service: Option<String>,
    share: Option<f64>,
    /// How long, as described; until it is ended where it is not said.
    #[serde(rename = "for")]
    span: Option<String>,
}

#[derive(Debug, Serialize)]
struct StationReport {
    service: Name,
    workers: usize,
    queue: usize,
    working: usize,
    waiting: usize,
}

/// The routes under `/admin`.
pub fn admin(site: AdminSite) -> Router {
    Router::new()
        .route("/admin/faults", get(list).post(start).delete(end_all))
        .route("/admin/faults/{fault}", delete(end))
        .route("/admin/capacity", get(capacity).put(resize))
        .route("/admin/counts", get(counts))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(site.clone(), may))
        .with_state(site)
}

async fn may(State(site): State<AdminSite>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    if !given.is_some_and(|given| same(given.as_bytes(), site.token.as_bytes())) {
        let mut response = Problem::new(
            StatusCode::UNAUTHORIZED,
            "the admin interface wants `Authorization: Bearer <token>`; the token is printed at the start",
        )
        .into_response();
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    next.run(request).await
}

/// Takes the same time wherever the first difference is.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given
            .iter()
            .zip(wanted)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

async fn list(State(site): State<AdminSite>) -> Json<Vec<Fault>> {
    Json(site.faults.active())
}

async fn start(State(site): State<AdminSite>, Body(wanted): Body<Wanted>) -> Result<Response, Problem> {
    let kind: Kind = wanted.fault.parse().map_err(wrong)?;
    let mut fault = Fault::of(kind);
    if let Some(service) = &wanted.service {
        fault = fault.at(service.parse().map_err(wrong)?).map_err(wrong)?;
    }
    if let Some(share) = wanted.share {
        fault = fault.share(share).map_err(wrong)?;
    }
    match &wanted.span {
        None => site.faults.start(fault.clone()),
        Some(text) => {
            let span = retryguard_policy::reading::span(text)
                .filter(|span| !span.is_zero() && *span <= LONGEST)
                .ok_or_else(|| {
                    Problem::bad("`for` is a duration of at most an hour with a unit, such as 12s or 2m")
                })?;
            site.faults.start_for(fault.clone(), span);
        }
    }
    Ok((StatusCode::CREATED, Json(fault)).into_response())
}

async fn end(
    State(site): State<AdminSite>,
    Path(fault): Path<String>,
) -> Result<Json<serde_json::Value>, Problem> {
    let kind: Kind = fault.parse().map_err(wrong)?;
    if !site.faults.end(kind) {
        return Err(Problem::new(StatusCode::NOT_FOUND, format!("no {kind} is on")));
    }
    Ok(Json(json!({"ended": kind})))
}

async fn end_all(State(site): State<AdminSite>) -> Json<serde_json::Value> {
    site.faults.end_all();
    Json(json!({"ended": "all"}))
}

/// What this process has counted; with `?latency` also how long its calls took.
async fn counts(State(site): State<AdminSite>, uri: http::Uri) -> Json<Reading> {
    Json(site.counts.reading(uri.query() == Some("latency")))
}

async fn capacity(State(site): State<AdminSite>) -> Result<Json<StationReport>, Problem> {
    let load = site
        .counts
        .station(site.name)
        .ok_or_else(|| no_station(site.name))?
        .load();
    Ok(Json(StationReport {
        service: site.name,
        workers: load.capacity.workers,
        queue: load.capacity.queue,
        working: load.working,
        waiting: load.waiting,
    }))
}

async fn resize(
    State(site): State<AdminSite>,
    Body(wanted): Body<Capacity>,
) -> Result<Json<StationReport>, Problem> {
    if wanted.workers > MOST || wanted.queue > MOST {
        return Err(Problem::bad(format!(
            "a station has at most {MOST} workers and places"
        )));
    }
    let station = site
        .counts
        .station(site.name)
        .ok_or_else(|| no_station(site.name))?;
    station.resize(wanted);
    capacity(State(site)).await
}

fn no_station(name: Name) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("{name} has no bounded capacity: ask payments or inventory"),
    )
}

fn wrong(error: anyhow::Error) -> Problem {
    Problem::bad(error.to_string())
}
