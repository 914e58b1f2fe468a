//! Spans of one order, as a collector on loopback receives them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post as route};
use retryguard_lab::{Configuration, Name, trace};
use serde_json::Value;

use crate::support::{send, system};

/// What a collector receives of one span.
#[derive(Debug, Clone)]
struct Told {
    service: String,
    parent: Option<String>,
    is_client: bool,
}

type Spans = Arc<Mutex<BTreeMap<String, BTreeMap<String, Told>>>>;

/// Takes spans as a collector does, by trace and by their own id.
async fn take(State(spans): State<Spans>, Json(body): Json<Value>) -> Json<Value> {
    let mut spans = spans.lock().unwrap();
    for resource in body["resourceSpans"].as_array().unwrap() {
        let service = &resource["resource"]["attributes"][0];
        assert_eq!(service["key"], "service.name");
        for scope in resource["scopeSpans"].as_array().unwrap() {
            for span in scope["spans"].as_array().unwrap() {
                let text = |key: &str| span[key].as_str().map(str::to_owned);
                let time = |key: &str| text(key).unwrap().parse::<u64>().unwrap();
                assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
                let told = Told {
                    service: service["value"]["stringValue"].as_str().unwrap().to_owned(),
                    parent: text("parentSpanId"),
                    is_client: span["kind"] == 3,
                };
                let trace = spans.entry(text("traceId").unwrap()).or_default();
                trace.insert(text("spanId").unwrap(), told);
            }
        }
    }
    Json(serde_json::json!({}))
}

/// Every hop is there, the one through the outbox too, and every span but the first hangs on another of the trace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_is_one_trace_through_all_hops() {
    let spans = Spans::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/v1/traces", route(take))
        .with_state(spans.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let otlp = trace::Otlp::start(&format!("http://{address}")).unwrap();
    trace::export_to(otlp.clone());

    let system = system(Configuration::G).await;
    let (id, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let parent = format!("00-{id}-{caller}-01");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", parent.as_str()),
        ("idempotency-key", "trace-1"),
    ];
    let body = br#"{"order":"t-1","items":[{"sku":1,"quantity":1}]}"#;
    let answer = send(system.address(Name::Gateway), "POST", "/orders", &headers, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");

    let mut trace = BTreeMap::new();
    for _ in 0..600 {
        otlp.flush().await;
        trace = spans.lock().unwrap().get(id).cloned().unwrap_or_default();
        if servers(&trace).len() == Name::ALL.len() {
            break;
        }
        retryguard_lab::clock::sleep(Duration::from_millis(100)).await;
    }
    let all: BTreeSet<&str> = Name::ALL.map(Name::as_str).into();
    assert_eq!(servers(&trace), all, "{trace:?}");
    for (own, told) in &trace {
        let parent = told.parent.as_deref().unwrap();
        if parent == caller {
            assert_eq!(
                (told.service.as_str(), told.is_client),
                ("gateway", false),
                "{own}"
            );
            continue;
        }
        let above = trace
            .get(parent)
            .unwrap_or_else(|| panic!("{own} hangs on nothing: {trace:?}"));
        assert_ne!(
            above.is_client, told.is_client,
            "a call and its answer take turns: {own}"
        );
    }
    system.stop().await;
}

fn servers(trace: &BTreeMap<String, Told>) -> BTreeSet<&str> {
    let servers = trace.values().filter(|told| !told.is_client);
    servers.map(|told| told.service.as_str()).collect()
}
