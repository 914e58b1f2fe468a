//! Waits, deadlines and limits of one caller that must not become those of all.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::any,
};
use retryguard::{Error, Refusal, machines::breaker, machines::guard, server::ServerLayer};

use super::reqwest;
use crate::support::{
    bytes::Raw,
    loopback::{Served, serve},
    only, policy,
    time::sleep,
};

/// Answers by the path: `/404/30` is a 404 with `Retry-After: 30`. `/limited` limits the user `a`.
async fn answers() -> Served {
    let by_path = |path: axum::extract::Path<(u16, String)>| async move {
        (
            StatusCode::from_u16(path.0.0).unwrap(),
            [("retry-after", path.0.1)],
        )
    };
    let limited = |headers: HeaderMap| async move {
        if headers.get("authorization").is_some_and(|it| it == "Bearer a") {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")]).into_response()
        } else {
            StatusCode::OK.into_response()
        }
    };
    let slow = || async {
        sleep(30).await;
        "here"
    };
    let router = Router::new()
        .route("/{status}/{wait}", any(by_path))
        .route("/limited", any(limited))
        .route("/slow", any(slow))
        .route("/", any(|| async { "here" }));
    serve(router).await
}

/// A 404 with a Retry-After closed the whole target for up to 30 seconds.
#[tokio::test]
async fn only_overload_closes_the_target() {
    let server = answers().await;
    for (path, closes) in [
        ("/404/30", false),
        ("/500/30", false),
        ("/507/30", false),
        ("/429/30", false),
        ("/503/30", true),
        // 10^20 seconds were read as none at all.
        ("/503/100000000000000000000", true),
    ] {
        let client = reqwest(&only("maxRetries: 0, gate: { scope: target }"), false);
        let first = client
            .get(server.url(path))
            .bearer_auth("a")
            .send()
            .await
            .unwrap();
        assert!(first.status().as_u16() >= 400);
        let second = client.get(server.url("/")).bearer_auth("b").send().await;
        match second {
            Ok(response) => assert!(!closes && response.status() == 200, "{path}"),
            Err(Error::Refused {
                refusal: Refusal::RetryAfter,
                retry_after,
            }) => {
                assert!(closes, "{path}");
                assert!(
                    retry_after > Some(Duration::from_secs(10)),
                    "{path}: {retry_after:?}"
                );
            }
            Err(other) => panic!("{path}: {other:?}"),
        }
    }
}

/// One user's limit closed the target for all users, and its failures opened the breaker.
#[tokio::test]
async fn the_limit_of_one_user_does_not_lock_out_the_others() {
    let server = answers().await;
    let policy = only("maxRetries: 0, gate: { scope: target }, breaker: { trip: consecutive, failures: 3 }");
    let client = reqwest(&policy, false);
    let ask = |user: &'static str| client.get(server.url("/limited")).bearer_auth(user).send();
    assert_eq!(ask("a").await.unwrap().status(), 429);
    for _ in 0..10 {
        assert_eq!(ask("b").await.unwrap().status(), 200);
        // The limited user itself is told at once, without a request.
        assert!(matches!(
            ask("a").await,
            Err(Error::Refused {
                refusal: Refusal::RetryAfter,
                retry_after: Some(_)
            })
        ));
    }
    assert_eq!(client.handle().status().breaker, breaker::State::Closed);
}

/// `retryguard-deadline-ms: 5` from outside opened the breaker of a healthy dependency.
#[tokio::test]
async fn a_callers_short_deadline_does_not_poison_what_all_callers_share() {
    let dependency = answers().await;
    let inner = policy(
        "services: { it: { breaker: { trip: consecutive, failures: 5 }, guard: { interval: 100ms } } }",
    );
    let client = reqwest(&inner, false);
    let (handle, url) = (client.handle().clone(), dependency.url("/slow"));
    let handler = move || {
        let (client, url) = (client.clone(), url.clone());
        async move {
            match client.get(url).send().await {
                Ok(response) => response.status(),
                Err(_) => StatusCode::BAD_GATEWAY,
            }
        }
    };
    let front = Router::new()
        .route("/", any(handler))
        .layer(ServerLayer::new(&policy(""), "front"));
    let front = serve(front).await;
    let outside = reqwest::Client::new();
    for _ in 0..60 {
        let answer = outside
            .get(front.url("/"))
            .header("retryguard-deadline-ms", "5")
            .send()
            .await
            .unwrap();
        assert!(!answer.status().is_success());
    }
    let status = handle.status();
    assert_eq!(
        (status.breaker, status.guard),
        (breaker::State::Closed, guard::State::On)
    );
    assert_eq!(outside.get(front.url("/")).send().await.unwrap().status(), 200);
}

/// Callers that gave up before the policy did never opened the breaker of a target that answers nothing.
#[tokio::test]
async fn callers_that_give_up_early_open_the_breaker_of_a_black_hole() {
    let (healthy, hole) = (answers().await, Raw::black_hole().await);
    let client = reqwest(&only("breaker: { trip: consecutive, failures: 5 }"), false);
    for _ in 0..3 {
        client.get(healthy.url("/")).send().await.unwrap();
    }
    // Long enough to say something of a target that answers in a few milliseconds, and far from the policy's ten seconds.
    // A slow machine makes the known answers slower, so callers become more patient until it counts.
    let mut patience = Duration::from_millis(200);
    while client.handle().status().breaker == breaker::State::Closed {
        for _ in 0..5 {
            let call = client.get(hole.url("/")).send();
            let gave_up = tokio::time::timeout(patience, call).await.is_err();
            // Some of the shorter waits may have counted, so that it opens before all five have ended.
            let is_open = client.handle().status().breaker != breaker::State::Closed;
            assert!(gave_up || is_open || patience > Duration::from_secs(2));
        }
        assert!(patience < Duration::from_secs(9), "the breaker never opened");
        patience *= 2;
    }
    assert!(matches!(
        client.get(hole.url("/")).send().await,
        Err(Error::Refused {
            refusal: Refusal::BreakerOpen,
            ..
        })
    ));
}

/// A full server refused the probes of its orchestrator, and was restarted for being busy.
#[tokio::test]
async fn a_full_server_answers_its_probes() {
    let slow = || async {
        sleep(30_000).await;
        "late"
    };
    let text = "services: { shop: { server: { inFlight: 1, exempt: [/healthz, /up] } } }";
    let router = Router::new()
        .route("/slow", any(slow))
        .route("/healthz", any(|| async { "well" }))
        .route("/up", any(|| async { "up" }))
        .route("/", any(|| async { "here" }))
        .layer(ServerLayer::new(&policy(text), "shop"));
    let server = serve(router).await;
    let client = reqwest::Client::new();
    let slow = tokio::spawn(client.get(server.url("/slow")).send());
    while client.get(server.url("/")).send().await.unwrap().status() != 503 {
        sleep(5).await;
    }
    for path in ["/healthz", "/up", "/healthz?verbose"] {
        assert_eq!(
            client.get(server.url(path)).send().await.unwrap().status(),
            200,
            "{path}"
        );
    }
    slow.abort();
}
