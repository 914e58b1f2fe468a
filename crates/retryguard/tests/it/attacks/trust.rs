//! What an outside caller can say of itself, and what third parties learn of ours.

use axum::{Router, http::HeaderMap, routing::any};
use http::Request;
use http_body_util::Full;
use retryguard::{Context, Trust, server::ServerLayer};
use tower::ServiceExt;

use super::{hyper, reqwest};
use crate::support::{
    loopback::{Served, serve},
    only, policy,
};

/// Answers with the names of our headers that arrived, and with the context of the handler.
async fn echo(layer: Option<ServerLayer>) -> Served {
    let handler = |headers: HeaderMap| async move {
        let mut ours: Vec<String> = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("retryguard-"))
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        ours.sort();
        let context = Context::current().map(|context| (context.deadline().is_some(), context.criticality()));
        format!("{} {context:?}", ours.join(" "))
    };
    let router = Router::new().route("/", any(handler));
    match layer {
        Some(layer) => serve(router.layer(layer)).await,
        None => serve(router).await,
    }
}

async fn hostile(server: &Served) -> String {
    let request = reqwest::Client::new()
        .get(server.url("/"))
        .header("retryguard-criticality", "critical-plus")
        .header("retryguard-deadline-ms", "60000")
        .header("retryguard-attempt", "3")
        .header("retryguard-feature", "checkout");
    request.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn an_edge_believes_nothing_and_passes_nothing_on() {
    let edge = policy("services: { shop: { server: { trust: edge } } }");
    let server = echo(Some(ServerLayer::new(&edge, "shop"))).await;
    assert_eq!(
        hostile(&server).await,
        "retryguard-attempt=1 retryguard-criticality=critical Some((false, Critical))"
    );
}

#[tokio::test]
async fn by_default_no_caller_makes_itself_critical_plus() {
    let server = echo(Some(ServerLayer::new(&policy(""), "shop"))).await;
    let seen = hostile(&server).await;
    assert!(seen.contains("retryguard-criticality=critical "), "{seen}");
    assert!(seen.ends_with("Some((true, Critical))"), "{seen}");
}

#[tokio::test]
async fn an_internal_server_believes_everything_and_a_mapping_decides_for_itself() {
    let internal = policy("services: { shop: { server: { trust: internal } } }");
    let server = echo(Some(ServerLayer::new(&internal, "shop"))).await;
    assert!(hostile(&server).await.ends_with("Some((true, CriticalPlus))"));
    let mapped = ServerLayer::new(&policy(""), "shop").trust_by(|headers, _, claimed| {
        let ours = headers
            .get("x-internal-token")
            .is_some_and(|token| token == "right");
        claimed.believed(if ours { Trust::Internal } else { Trust::Edge })
    });
    let server = echo(Some(mapped)).await;
    assert!(hostile(&server).await.ends_with("Some((false, Critical))"));
}

/// Names of features, clients and criticalities went to every server that was called.
#[tokio::test]
async fn third_parties_are_told_nothing() {
    let server = echo(None).await;
    for (keys, told) in [("tags: false", false), ("", true)] {
        let policy = only(keys);
        let by_reqwest = reqwest(&policy, false)
            .get(server.url("/"))
            .feature("checkout")
            .header("retryguard-client", "shop/1")
            .send()
            .await
            .unwrap();
        let text = by_reqwest.text().await.unwrap();
        assert_eq!(text.contains("retryguard-"), told, "{keys}: {text}");
        let request = Request::get(server.url("/")).body(Full::default()).unwrap();
        let response = hyper(&policy, false).oneshot(request).await.unwrap();
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        assert_eq!(text.contains("retryguard-"), told, "{keys}: {text}");
    }
}
