//! The windows as a Prometheus server kept them: what to ask it, and how its answers are read. Asking is the caller's.

use std::{collections::BTreeMap, time::Duration};

use super::Window;

/// Whose metrics a Prometheus server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metrics {
    #[default]
    /// `http_requests_total` with `service` and `status`, `request_duration_seconds`.
    Http,
    /// `istio_requests_total` and `istio_request_duration_milliseconds`, as the destination reports them.
    Istio,
    /// `envoy_cluster_upstream_rq_total` and `envoy_cluster_upstream_rq_time` of a cluster.
    Envoy,
}

/// The expressions whose values over time are the windows.
#[derive(Debug, Clone)]
pub struct Questions {
    /// Requests of each window.
    pub requests: String,
    /// Of these, failures.
    pub failures: String,
    /// Latencies, by their upper bound `le`.
    pub buckets: String,
    /// The sum of the latencies.
    pub seconds: String,
    /// Instances.
    pub instances: String,
    /// What a bound of the histogram is in seconds.
    pub unit: f64,
}

impl Metrics {
    /// The expressions for a service and the length of a window.
    #[must_use]
    pub fn questions(self, service: &str, every: Duration) -> Questions {
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

/// One series of a range.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The label `le`, in a histogram.
    pub bound: Option<String>,
    /// The values by time, in seconds since 1970.
    pub points: Vec<(f64, f64)>,
}

/// The answers to [`Questions`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Requests of each window.
    pub requests: Vec<Series>,
    /// Of these, failures.
    pub failures: Vec<Series>,
    /// Latencies, by their upper bound.
    pub buckets: Vec<Series>,
    /// The sum of the latencies.
    pub seconds: Vec<Series>,
}

/// Asks for all that a scenario is made from. `read` gives the series of an expression. Gives the windows and the number of
/// replicas; none where there is no data.
///
/// # Errors
/// The first of `read`.
pub async fn collect<E>(
    questions: &Questions,
    read: impl AsyncFn(&str) -> Result<Vec<Series>, E>,
) -> Result<Option<(Vec<Window>, u32)>, E> {
    let requests = read(&questions.requests).await?;
    if requests.iter().all(|series| series.points.is_empty()) {
        return Ok(None);
    }
    let answers = Answers {
        requests,
        failures: read(&questions.failures).await?,
        buckets: read(&questions.buckets).await?,
        seconds: read(&questions.seconds).await?,
    };
    let instances = read(&questions.instances).await?;
    Ok(Some((windows(&answers, questions.unit), largest(&instances))))
}

/// A window for each moment at which there were requests. A gap is a window without requests.
#[must_use]
pub fn windows(answers: &Answers, unit: f64) -> Vec<Window> {
    let failures = by_time(&answers.failures);
    let seconds = by_time(&answers.seconds);
    let mut bounds: Vec<(f64, BTreeMap<u64, f64>)> = answers
        .buckets
        .iter()
        .filter_map(|series| {
            let bound: f64 = match series.bound.as_deref()? {
                "+Inf" => f64::INFINITY,
                text => text.parse().ok()?,
            };
            Some((bound * unit, by_time(std::slice::from_ref(series))))
        })
        .collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_time(&answers.requests)
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
fn by_time(series: &[Series]) -> BTreeMap<u64, f64> {
    let mut sums = BTreeMap::new();
    for (time, value) in series.iter().flat_map(|series| &series.points) {
        *sums.entry((time * 1e3).round() as u64).or_insert(0.0) += value;
    }
    sums
}

/// The largest value, as a number of replicas.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the replicas that a scenario may have"
)]
#[must_use]
pub fn largest(series: &[Series]) -> u32 {
    series
        .iter()
        .flat_map(|series| &series.points)
        .map(|(_, value)| *value)
        .fold(1.0, f64::max)
        .clamp(1.0, 10_000.0) as u32
}
