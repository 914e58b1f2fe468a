//! What users call: passes orders on.

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, Method, StatusCode, header};

use super::{KEY, check_reference};
use crate::{
    answer::{Body, Problem},
    name::Name,
    services::orders::Order,
    site::{Site, client::Answer, client::Downstream},
};

pub(super) fn routes(site: &Site) -> anyhow::Result<Router> {
    Ok(Router::new()
        .route("/orders", post(place))
        .route("/orders/{order}", get(look))
        .with_state(site.downstream(Name::Orders)?))
}

async fn place(
    State(orders): State<Downstream>,
    headers: HeaderMap,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    order.check()?;
    let mut onward = HeaderMap::new();
    if let Some(key) = headers.get(KEY) {
        onward.insert(KEY, key.clone());
    }
    onward.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    let body = serde_json::to_vec(&order).unwrap_or_default();
    pass(orders.call(Method::POST, "/orders", onward, body.into()).await)
}

async fn look(State(orders): State<Downstream>, Path(order): Path<String>) -> Result<Response, Problem> {
    check_reference(&order)?;
    let path = format!("/orders/{order}");
    pass(
        orders
            .call(Method::GET, &path, HeaderMap::new(), Bytes::new())
            .await,
    )
}

/// The answer as it is: status, body, and what says whether it was replayed or may be retried.
fn pass(answer: Answer) -> Result<Response, Problem> {
    let (status, headers, body) = answer.map_err(|error| Problem::downstream("orders", &error))?;
    let mut response = (status, body).into_response();
    for name in [
        "content-type",
        "retry-after",
        "idempotency-replayed",
        "idempotent-replayed",
    ] {
        if let Some(value) = headers.get(name)
            && let Ok(name) = header::HeaderName::try_from(name)
        {
            response.headers_mut().insert(name, value.clone());
        }
    }
    if status == StatusCode::OK && response.headers().get(header::CONTENT_TYPE).is_none() {
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/json"),
        );
    }
    Ok(response)
}
