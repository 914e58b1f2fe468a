//! The windows as a Prometheus server kept them.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use retryguard_controller::adapters::source::prometheus::history::History;
use retryguard_sim::calibrate::{
    Observed,
    prometheus::{self, Series, collect},
};

/// Which server, which time and whose metrics.
#[derive(Args)]
pub(super) struct Server {
    /// The address of a Prometheus server.
    #[arg(long, value_name = "URL", group = "source")]
    prometheus: Option<String>,
    /// Whose metrics are read.
    #[arg(long, value_enum, default_value_t = Metrics::Http)]
    metrics: Metrics,
    /// How far to look back.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = super::duration)]
    last: Duration,
    /// The file with a bearer token for the server.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM; those of the machine where none is given.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Metrics {
    /// `http_requests_total` with `service` and `status`, `request_duration_seconds`.
    Http,
    /// `istio_requests_total` and `istio_request_duration_milliseconds`, as the destination reports them.
    Istio,
    /// `envoy_cluster_upstream_rq_total` and `envoy_cluster_upstream_rq_time` of a cluster.
    Envoy,
}

/// The most windows that are asked for: a server refuses more than 11,000 points.
const MOST_WINDOWS: f64 = 1_000.0;

impl Server {
    /// The windows, the replicas, and where they come from.
    pub(super) async fn ask(
        &self,
        service: &str,
        every: Duration,
    ) -> anyhow::Result<(Observed, u32, String)> {
        let address = self.prometheus.as_deref().unwrap_or_default();
        let history = History::new(address, self.token_file.as_deref(), self.ca_file.as_deref())?;
        let every = every.max(self.last.div_f64(MOST_WINDOWS));
        let until = retryguard_controller::clock::unix_time().as_secs_f64();
        let span = (until - self.last.as_secs_f64(), until);
        let metrics = match self.metrics {
            Metrics::Http => prometheus::Metrics::Http,
            Metrics::Istio => prometheus::Metrics::Istio,
            Metrics::Envoy => prometheus::Metrics::Envoy,
        };
        let questions = metrics.questions(service, every);
        let read = async |query: &str| -> anyhow::Result<Vec<Series>> {
            let series = history.range(query, span, every.as_secs_f64()).await?.into_iter();
            Ok(series
                .map(|mut series| Series {
                    bound: series.labels.remove("le"),
                    points: series.points,
                })
                .collect())
        };
        let found = collect(&questions, read).await?;
        let (windows, replicas) = found.with_context(|| {
            format!(
                "{address} has no data of {service}: `{}` is empty. Is the name right, and --metrics?",
                questions.requests
            )
        })?;
        let observed = Observed { windows, every };
        Ok((observed, replicas, format!("{service} in {address}")))
    }
}
