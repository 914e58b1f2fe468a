//! The library's metrics, and a trace of each call, through OpenTelemetry. The exporters write to the
//! standard output; a program of one's own would put those of `opentelemetry-otlp` in their place.
//!
//! `cargo run -p retryguard-examples --example opentelemetry`

use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, http::StatusCode, routing::get};
use metrics_exporter_opentelemetry::Recorder;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use retryguard::{Policy, Report, for_reqwest::Client};
use retryguard_examples::serve;
use tracing::{Instrument, info_span};
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt};

const POLICY: &str = "
services:
  stock:
    initialDelay: 5ms
    budget: {percent: 100%}
    breaker: {trip: consecutive, failures: 4, openFor: 1s}
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let traces = SdkTracerProvider::builder()
        .with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("retryguard-examples"));
    tracing_subscriber::registry()
        .with(LevelFilter::INFO)
        .with(layer)
        .init();
    let (metrics, _) = Recorder::builder("retryguard-examples")
        .with_meter_provider(|provider| {
            provider.with_periodic_exporter(opentelemetry_stdout::MetricExporter::default())
        })
        .install()?;

    let url = serve(Router::new().route("/", get(stock))).await?;
    let client = Client::new(&Policy::parse(POLICY)?, "stock")?;
    for number in 1..=4 {
        // The changes of breaker and guard are events of ours, and land in the span of the call that met them.
        let span = info_span!(
            "stock",
            number,
            status = tracing::field::Empty,
            attempts = tracing::field::Empty
        );
        let result = client.get(&url).send().instrument(span.clone()).await;
        match result {
            Ok(response) => {
                span.record("status", u64::from(response.status().as_u16()));
                let report = Report::of(response.extensions());
                span.record("attempts", u64::from(report.attempts));
            }
            Err(error) => {
                span.record("status", error.to_string());
            }
        }
    }
    traces.shutdown()?;
    metrics.shutdown()?;
    Ok(())
}

/// Well at first, then unavailable.
async fn stock() -> StatusCode {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    match REQUESTS.fetch_add(1, Ordering::Relaxed) {
        0 | 2 => StatusCode::OK,
        1 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}
