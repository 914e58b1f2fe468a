//! Whatever is sent, the answer is a 4xx with a reason; no 500, no panic, and the next order is served.

use retryguard_lab::{Configuration, Name, System};

use crate::support::{post, raw, send, system};

const PATHS: [(Name, &str, &str); 5] = [
    (
        Name::Gateway,
        "/orders",
        r#"{"order":"h-1","items":[{"sku":1,"quantity":1}]}"#,
    ),
    (
        Name::Orders,
        "/orders",
        r#"{"order":"h-2","items":[{"sku":1,"quantity":1}]}"#,
    ),
    (Name::Payments, "/charges", r#"{"order":"h-3","amount":100}"#),
    (
        Name::Inventory,
        "/reservations",
        r#"{"order":"h-4","items":[{"sku":1,"quantity":1}]}"#,
    ),
    (Name::Notifications, "/notifications", r#"{"order":"h-5"}"#),
];

fn bodies() -> Vec<Vec<u8>> {
    let deep = "[".repeat(10_000);
    let long = format!(r#"{{"order":"{}","items":[]}}"#, "x".repeat(65));
    let items = vec![r#"{"sku":1,"quantity":1}"#; 21].join(",");
    [
        "",
        "null",
        "[]",
        "0",
        "\"x\"",
        "{",
        "{}",
        "\u{0}",
        &deep,
        &long,
        &format!(r#"{{"order":"a","items":[{items}]}}"#),
        r#"{"order":7,"items":[{"sku":1,"quantity":1}],"amount":1}"#,
        r#"{"order":"a","items":[{"sku":-1,"quantity":1}],"amount":-1}"#,
        r#"{"order":"a","items":[{"sku":1,"quantity":0}],"amount":0}"#,
        r#"{"order":"a","items":[{"sku":1,"quantity":1e99}],"amount":1e99}"#,
        r#"{"order":"a","items":[{"sku":4294967296,"quantity":1}],"amount":9223372036854775808}"#,
        r#"{"order":"../../etc","items":[{"sku":1,"quantity":1}],"amount":1}"#,
        r#"{"order":"a'; DROP TABLE orders;--","items":[{"sku":1,"quantity":1}],"amount":1}"#,
        r#"{"order":"a","order":"b","items":[{"sku":1,"quantity":1}],"amount":1}"#,
        r#"{"order":"a","unknown":1}"#,
        r#"{"order":"","items":[],"amount":1}"#,
    ]
    .iter()
    .map(|body| body.as_bytes().to_vec())
    .chain([vec![0xff, 0xfe, 0x00], vec![b' '; 17 * 1024], vec![b'{'; 200_000]])
    .collect()
}

async fn still_well(system: &System) {
    for (name, path, body) in PATHS {
        let answer = post(system.address(name), path, body).await;
        assert_eq!(answer.status, 201, "{name} after all that: {answer:?}");
    }
}

#[tokio::test]
async fn wrong_bodies() {
    for configuration in [Configuration::A, Configuration::G] {
        let system = system(configuration).await;
        for (name, path, _) in PATHS {
            for body in bodies() {
                let shown: String = String::from_utf8_lossy(&body).chars().take(80).collect();
                let json = [("content-type", "application/json"), ("idempotency-key", "\"k\"")];
                for headers in [&json[..], &json[..1], &[]] {
                    let answer = send(system.address(name), "POST", path, headers, &body).await;
                    assert!(
                        (400..500).contains(&answer.status),
                        "{configuration} {name} {shown}: {answer:?}"
                    );
                    assert!(answer.body.len() > 10, "{name} {shown} says nothing: {answer:?}");
                }
            }
        }
        still_well(&system).await;
        system.stop().await;
    }
}

#[tokio::test]
async fn headers_methods_and_paths() {
    let system = system(Configuration::G).await;
    let long = "k".repeat(300);
    for (name, path, body) in PATHS {
        let address = system.address(name);
        for (header, value) in [
            ("retryguard-deadline-ms", "86400000000"),
            ("retryguard-deadline-ms", "18446744073709551615"),
            ("retryguard-deadline-ms", "18446744073709551616"),
            ("retryguard-deadline-ms", "-1"),
            ("grpc-timeout", "99999999H"),
            ("retryguard-attempt", "99999999"),
            ("retryguard-criticality", "\u{1}"),
            ("traceparent", "00-zz"),
            ("idempotency-key", long.as_str()),
            ("grpc-timeout", "99999999999H"),
        ] {
            let headers = [("content-type", "application/json"), (header, value)];
            let answer = send(address, "POST", path, &headers, body.as_bytes()).await;
            assert!(answer.status < 500, "{name} {header}: {value:.40}: {answer:?}");
        }
        for method in ["GET", "PUT", "DELETE", "PATCH", "BREW"] {
            let answer = send(address, method, path, &[], b"").await;
            assert_eq!(answer.status, 405, "{name} {method}: {answer:?}");
            assert!(answer.body.contains("openapi"), "{answer:?}");
        }
        for path in [
            "/",
            "/nothing",
            "/orders/a/b",
            "/%00",
            "/orders/%ff%fe",
            "/orders/..%2f",
            "//",
            "/admin",
            "/?q=1",
        ] {
            let answer = send(address, "GET", path, &[], b"").await;
            assert!((400..500).contains(&answer.status), "{name} {path}: {answer:?}");
        }
        // No HTTP at all: an answer of 400 or a closed connection.
        for bytes in [
            &b"\x16\x03\x01\x02\x00"[..],
            b"GET\r\n\r\n",
            b"POST /orders HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        ] {
            if let Some(answer) = raw(address, bytes).await {
                assert_eq!(answer.status, 400, "{name}: {answer:?}");
            }
        }
    }
    still_well(&system).await;
    system.stop().await;
}

#[tokio::test]
async fn every_service_describes_what_it_serves() {
    let system = system(Configuration::A).await;
    for (name, path, _) in PATHS {
        let address = system.address(name);
        let answer = send(address, "GET", "/openapi.json", &[], b"").await;
        let described: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(described["paths"][path]["post"].is_object(), "{name}");
        assert_eq!(send(address, "GET", "/healthz", &[], b"").await.status, 200);
        let metrics = send(address, "GET", "/metrics", &[], b"").await.body;
        for family in [
            "http_requests_total",
            "request_duration_seconds",
            "load_shed_total",
            "idempotency_hits_total",
        ] {
            assert!(metrics.contains(family), "{name}: {family}");
        }
    }
    system.stop().await;
}
