//! The admin interface acts for callers with the token only.

use retryguard_lab::{Configuration, Name, faults::Kind};

use crate::support::{Answer, post, send, system};

const ORDER: &str = r#"{"order":"a-1","items":[{"sku":1,"quantity":1}]}"#;

#[tokio::test]
async fn a_request_without_the_token_changes_nothing() {
    let system = system(Configuration::A).await;
    for name in Name::ALL {
        let address = system.address(name);
        for authorization in [
            "",
            "Bearer ",
            "Bearer wrong",
            "Basic x",
            &format!("bearer {}", system.token()),
        ] {
            for (method, path) in [
                ("GET", "/admin/faults"),
                ("POST", "/admin/faults"),
                ("DELETE", "/admin/faults"),
                ("PUT", "/admin/capacity"),
                ("GET", "/admin/unknown"),
            ] {
                let headers = [
                    ("authorization", authorization),
                    ("content-type", "application/json"),
                ];
                let answer = send(address, method, path, &headers, br#"{"fault":"kill"}"#).await;
                assert_eq!(
                    answer.status, 401,
                    "{name} {method} {path} {authorization}: {answer:?}"
                );
                assert!(answer.body.contains("Bearer"), "{answer:?}");
            }
        }
    }
    assert!(system.faults().active().is_empty());
    system.stop().await;
}

#[tokio::test]
async fn a_fault_begins_lasts_and_ends() {
    let system = system(Configuration::A).await;
    let (payments, gateway) = (system.address(Name::Payments), system.address(Name::Gateway));
    let token = format!("Bearer {}", system.token());
    let ask = async |method: &str, path: &str, body: &str| -> Answer {
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        send(payments, method, path, &headers, body.as_bytes()).await
    };
    let broken = ask(
        "POST",
        "/admin/faults",
        r#"{"fault":"payment_errors","share":1.0}"#,
    )
    .await;
    assert_eq!(broken.status, 201, "{broken:?}");
    let order = post(gateway, "/orders", ORDER).await;
    assert_eq!(order.status, 503, "{order:?}");
    assert!(order.body.contains("payments answered 503"), "{order:?}");
    assert_eq!(
        ask("DELETE", "/admin/faults/payment_errors", "").await.status,
        200
    );
    assert_eq!(
        ask("DELETE", "/admin/faults/payment_errors", "").await.status,
        404
    );
    assert_eq!(post(gateway, "/orders", ORDER).await.status, 201);

    let timed = ask(
        "POST",
        "/admin/faults",
        r#"{"fault":"inventory_lock","for":"100ms"}"#,
    )
    .await;
    assert_eq!(timed.status, 201, "{timed:?}");
    while !system.faults().active().is_empty() {
        tokio::task::yield_now().await;
    }
    system.stop().await;
}

#[tokio::test]
async fn a_wrong_wish_is_refused_with_what_is_right() {
    let system = system(Configuration::A).await;
    let token = format!("Bearer {}", system.token());
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    for (body, hint) in [
        (r#"{"fault":"fire"}"#, "payment_errors"),
        (r#"{"fault":"kill","service":"billing"}"#, "inventory"),
        (
            r#"{"fault":"payment_slow","service":"orders"}"#,
            "strikes payments",
        ),
        (r#"{"fault":"reset","share":1.5}"#, "between 0 and 1"),
        (r#"{"fault":"drip","for":"2"}"#, "unit"),
        (r#"{"fault":"drip","for":"2h"}"#, "an hour"),
        (r#"{"fault":"capacity_loss","service":"gateway"}"#, "workers"),
        (r#"{"fault":"drip","when":"now"}"#, "when"),
    ] {
        let answer = send(
            system.address(Name::Payments),
            "POST",
            "/admin/faults",
            &headers,
            body.as_bytes(),
        )
        .await;
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        assert!(answer.body.contains(hint), "{body}: {answer:?}");
    }
    let put = async |name, body: &str| {
        send(
            system.address(name),
            "PUT",
            "/admin/capacity",
            &headers,
            body.as_bytes(),
        )
        .await
    };
    assert_eq!(put(Name::Gateway, r#"{"workers":1,"queue":1}"#).await.status, 404);
    assert_eq!(
        put(Name::Payments, r#"{"workers":100001,"queue":1}"#)
            .await
            .status,
        422
    );
    assert_eq!(
        put(Name::Payments, r#"{"workers":100000,"queue":1}"#)
            .await
            .status,
        200
    );
    assert!(
        Kind::ALL
            .iter()
            .all(|kind| system.faults().find(*kind, Name::Payments).is_none())
    );
    system.stop().await;
}
