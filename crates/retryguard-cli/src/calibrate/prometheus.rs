//! The windows as a Prometheus server kept them.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use retryguard_controller::adapters::source::prometheus::history::{History, RangeSeries};
use retryguard_sim::calibrate::{Observed, Window};

/// Which server, which time and whose metrics.
#[derive(Args)]
pub(super) struct Server {
    /// The address of a Prometheus server.
    #[arg(long, value_name = "URL", conflicts_with = "csv")]
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

/// The expressions for one window, and what a bound of the histogram is in seconds.
struct Questions {
    requests: String,
    failures: String,
    buckets: String,
    seconds: String,
    instances: String,
    unit: f64,
}

impl Metrics {
    fn questions(self, service: &str, every: Duration) -> Questions {
        let service = service.replace(['\\', '"', '\n'], "_");
        let window = format!("{}ms", every.as_millis());
        let rise = |metric: &str, labels: &str| format!("increase({metric}{{{labels}}}[{window}])");
        let (total, own, failed, histogram, unit) = match self {
            Self::Http => (
                "http_requests_total",
                format!("service=\"{service}\""),
                "status=~\"5..|429\"",
                "request_duration_seconds",
                1.0,
            ),
            Self::Istio => (
                "istio_requests_total",
                format!("reporter=\"destination\",destination_service_name=\"{service}\""),
                "response_code=~\"5..|429\"",
                "istio_request_duration_milliseconds",
                1e-3,
            ),
            Self::Envoy => (
                "envoy_cluster_upstream_rq_total",
                format!("envoy_cluster_name=\"{service}\""),
                "envoy_response_code=~\"5..|429\"",
                "envoy_cluster_upstream_rq_time",
                1e-3,
            ),
        };
        let coded = if self == Self::Envoy {
            "envoy_cluster_upstream_rq"
        } else {
            total
        };
        Questions {
            requests: format!("sum({})", rise(total, &own)),
            failures: format!("sum({})", rise(coded, &format!("{own},{failed}"))),
            buckets: format!("sum by (le) ({})", rise(&format!("{histogram}_bucket"), &own)),
            seconds: format!("sum({})", rise(&format!("{histogram}_sum"), &own)),
            instances: format!("count(count by (instance) ({total}{{{own}}}))"),
            unit,
        }
    }
}

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
        let step = every.as_secs_f64();
        let questions = self.metrics.questions(service, every);
        let requests = history.range(&questions.requests, span, step).await?;
        anyhow::ensure!(
            requests.iter().any(|series| !series.points.is_empty()),
            "{address} has no data of {service}: `{}` is empty. Is the name right, and --metrics?",
            questions.requests
        );
        let failures = history.range(&questions.failures, span, step).await?;
        let buckets = history.range(&questions.buckets, span, step).await?;
        let seconds = history.range(&questions.seconds, span, step).await?;
        let instances = history.range(&questions.instances, span, step).await?;
        let observed = Observed {
            windows: windows(&requests, &failures, &buckets, &seconds, questions.unit),
            every,
        };
        Ok((observed, largest(&instances), format!("{service} in {address}")))
    }
}

/// A window for each moment at which there were requests. A gap is a window without requests.
fn windows(
    requests: &[RangeSeries],
    failures: &[RangeSeries],
    buckets: &[RangeSeries],
    seconds: &[RangeSeries],
    unit: f64,
) -> Vec<Window> {
    let failures = by_time(failures);
    let seconds = by_time(seconds);
    let mut bounds: Vec<(f64, BTreeMap<u64, f64>)> = buckets
        .iter()
        .filter_map(|series| {
            let bound: f64 = match series.labels.get("le")?.as_str() {
                "+Inf" => f64::INFINITY,
                text => text.parse().ok()?,
            };
            Some((bound * unit, by_time(std::slice::from_ref(series))))
        })
        .collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_time(requests)
        .into_iter()
        .map(|(time, requests)| {
            let at = |values: &BTreeMap<u64, f64>| values.get(&time).copied().unwrap_or(0.0);
            // Buckets are scraped one after the other: a lower one may be ahead of a higher one.
            let mut below = 0.0_f64;
            let buckets = bounds
                .iter()
                .map(|(bound, values)| {
                    below = below.max(at(values));
                    (*bound, below)
                })
                .collect();
            Window {
                requests,
                failures: at(&failures).min(requests),
                buckets,
                seconds: at(&seconds) * unit,
            }
        })
        .collect()
}

/// The sum of all series, by the moment in milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "milliseconds since 1970"
)]
fn by_time(series: &[RangeSeries]) -> BTreeMap<u64, f64> {
    let mut sums = BTreeMap::new();
    for (time, value) in series.iter().flat_map(|series| &series.points) {
        *sums.entry((time * 1e3).round() as u64).or_insert(0.0) += value;
    }
    sums
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the replicas that a scenario may have"
)]
fn largest(series: &[RangeSeries]) -> u32 {
    series
        .iter()
        .flat_map(|series| &series.points)
        .map(|(_, value)| *value)
        .fold(1.0, f64::max)
        .clamp(1.0, 10_000.0) as u32
}
