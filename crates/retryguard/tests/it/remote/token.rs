//! A policy server that requires a token.

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use retryguard::remote::{PolicyServer, RemoteError};

use super::{retries, text};
use crate::support::{
    loopback::{Served, serve},
    time::until,
};

const TOKEN: &str = "sesame-0123";

/// Answers requests that carry the token with the policy, also those for the user's own policy.
async fn guarded(retries: u8) -> Served {
    let answer = move |headers: HeaderMap| async move { only_with_token(&headers, text(retries)) };
    serve(Router::new().route("/policy", get(answer))).await
}

fn only_with_token(headers: &HeaderMap, text: String) -> Response {
    match headers.get(header::AUTHORIZATION) {
        Some(value) if *value == *format!("Bearer {TOKEN}") => {
            ([("x-retryguard-lapse-after", "300")], text).into_response()
        }
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

#[tokio::test]
async fn who_has_the_token_gets_the_policy() {
    let server = guarded(3).await;
    let live = PolicyServer::new(server.url("/policy"))
        .token(TOKEN)
        .follow()
        .await
        .unwrap();
    assert_eq!(retries(&live), 3);
}

/// The token goes with every poll, not only with the first.
#[tokio::test]
async fn polls_carry_it_too() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU8::new(0));
    let server = {
        let asked = asked.clone();
        // Two questions a policy: one for it, one for the user's own.
        let answer = move |headers: HeaderMap| async move {
            let before = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            only_with_token(&headers, text(1 + before.min(8) / 2))
        };
        serve(Router::new().route("/policy", get(answer))).await
    };
    let live = PolicyServer::new(server.url("/policy"))
        .token(TOKEN)
        .follow()
        .await
        .unwrap();
    assert_eq!(retries(&live), 1);
    until("later answers have come", || retries(&live) >= 3).await;
    assert!(asked.load(std::sync::atomic::Ordering::SeqCst) >= 5);
}

#[tokio::test]
async fn without_it_or_with_another_a_program_is_told_what_is_missing() {
    let server = guarded(3).await;
    let bare = PolicyServer::new(server.url("/policy"));
    for wrong in [bare.clone(), bare.token("sesame-0124")] {
        let error = wrong.follow().await.unwrap_err();
        assert!(matches!(error, RemoteError::Unauthorized(401)), "{error}");
        let words = format!("{error} {error:?}");
        assert!(words.contains("PolicyServer::token"), "{words}");
        assert!(!words.contains("sesame"), "{words}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_is_refused_and_not_repeated() {
    for token in ["", "sesame\n", "sesame\u{7f}"] {
        // No server is asked: there is no such port.
        let error = PolicyServer::new("http://127.0.0.1:0/policy")
            .token(token)
            .follow()
            .await
            .unwrap_err();
        assert!(matches!(error, RemoteError::Token), "{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"));
    }
}

#[tokio::test]
async fn it_is_not_shown_to_another_server_that_a_redirect_leads_to() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let other = {
        let seen = seen.clone();
        let answer = move |headers: HeaderMap| async move {
            seen.lock()
                .unwrap()
                .push(headers.contains_key(header::AUTHORIZATION));
            StatusCode::UNAUTHORIZED
        };
        serve(Router::new().route("/policy", get(answer))).await
    };
    let to = other.url("/policy");
    let server =
        serve(Router::new().route("/policy", get(move || async move { Redirect::temporary(&to) }))).await;
    let error = PolicyServer::new(server.url("/policy"))
        .token(TOKEN)
        .follow()
        .await
        .unwrap_err();
    assert!(matches!(error, RemoteError::Unauthorized(401)), "{error}");
    assert_eq!(*seen.lock().unwrap(), [false]);
}

#[test]
fn it_is_not_in_what_is_printed() {
    let server = PolicyServer::new("http://127.0.0.1/policy").token(TOKEN);
    let text = format!("{server:?}");
    assert!(text.contains("/policy") && text.contains('…'), "{text}");
    assert!(!text.contains(TOKEN), "{text}");
}
