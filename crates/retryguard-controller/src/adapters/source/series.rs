//! Which series speak for a target, and what they say: the same for Prometheus and for our own scraper.
//!
//! Rejections are read from what the *upstream* answered, attempt by attempt. Retries that were held back are
//! counted by data planes as overflows, and flagged on the response; neither is read here, or the guard would
//! take its own work for an overload and never let retries back.

use std::time::Duration;

use retryguard_core::Ratio;

use crate::config::source::preset::Preset;
use crate::domain::counts::{Counts, within};

/// What a series counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Attempts that reached the target.
    Attempts,
    /// Calls, where they are counted apart from attempts.
    Calls,
    /// Retries, where they are counted themselves.
    Retries,
    /// Retries that ended in a success.
    RetriesSucceeded,
    /// Attempts that ended with a response, where they are counted apart from those that began.
    Answered,
    /// Calls that ended with a response, after all of their attempts.
    Finished,
    /// Calls that were rejected in the end.
    Failed,
    /// Attempts that were rejected for load.
    Rejected,
    /// A bucket of the delay; a unit of its bound is so many seconds.
    Bucket(Unit),
}

/// The unit of a histogram's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    pub(crate) fn seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 0.001,
        }
    }
}

/// One kind of series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) role: Role,
    pub(crate) metric: &'static str,
    /// The labels that tell this target from others of its kind.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// The labels that tell what is counted: one of these values.
    pub(crate) fixed: Vec<(&'static str, Vec<String>)>,
}

/// Every kind of series of a target.
pub(crate) fn terms(preset: &Preset, delay: bool) -> Vec<Term> {
    let mut all = match preset {
        Preset::Istio { .. } => istio(preset),
        Preset::Envoy { cluster, codes } => envoy(cluster, codes),
        Preset::Linkerd {
            deployment,
            namespace,
            codes,
        } => linkerd(deployment, namespace, codes),
        Preset::Grpc { target, codes } => grpc(target, codes),
        Preset::Haproxy { backend } => haproxy(backend),
        Preset::Retryguard { service } => server(service),
        Preset::RetryguardClient { target } => client(target),
    };
    if !delay {
        all.retain(|term| !matches!(term.role, Role::Bucket(_)));
    }
    all
}

type Keys = Vec<(&'static str, String)>;

fn term(role: Role, metric: &'static str, keys: &Keys, fixed: &[(&'static str, &[&str])]) -> Term {
    let fixed = fixed
        .iter()
        .map(|(label, values)| (*label, values.iter().map(|value| (*value).to_owned()).collect()))
        .collect();
    Term {
        role,
        metric,
        keys: keys.clone(),
        fixed,
    }
}

/// As the destination reports it, which sees every attempt. What the source reports has retries folded in, and
/// flags held-back retries in a way that cannot be distinguished from a full connection pool.
fn istio(preset: &Preset) -> Vec<Term> {
    let Preset::Istio {
        service,
        namespace,
        caller,
        codes,
    } = preset
    else {
        return Vec::new();
    };
    let mut keys = vec![
        ("destination_service_name", service.clone()),
        ("destination_service_namespace", namespace.clone()),
    ];
    keys.extend(caller.clone().map(|caller| ("source_workload", caller)));
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let there = ("reporter", &["destination"][..]);
    vec![
        term(Role::Attempts, "istio_requests_total", &keys, &[there]),
        term(
            Role::Calls,
            "istio_requests_total",
            &keys,
            &[("reporter", &["source"])],
        ),
        term(
            Role::Rejected,
            "istio_requests_total",
            &keys,
            &[there, ("response_code", &codes)],
        ),
        // gRPC answers 200 and says in its own status that it is exhausted or unavailable.
        term(
            Role::Rejected,
            "istio_requests_total",
            &keys,
            &[
                there,
                ("response_code", &["200"]),
                ("grpc_response_status", &["8", "14"]),
            ],
        ),
        term(
            Role::Bucket(Unit::Milliseconds),
            "istio_request_duration_milliseconds_bucket",
            &keys,
            &[there],
        ),
    ]
}

fn envoy(cluster: &str, codes: &[String]) -> Vec<Term> {
    let keys = vec![("envoy_cluster_name", cluster.to_owned())];
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let code = ("envoy_response_code", &codes[..]);
    vec![
        term(Role::Attempts, "envoy_cluster_upstream_rq_total", &keys, &[]),
        term(Role::Retries, "envoy_cluster_upstream_rq_retry", &keys, &[]),
        term(
            Role::RetriesSucceeded,
            "envoy_cluster_upstream_rq_retry_success",
            &keys,
            &[],
        ),
        // Attempts are counted when they begin and responses when they end: with a slow upstream the two differ by
        // what was in flight, so a share of responses is taken of responses.
        term(Role::Answered, "envoy_cluster_upstream_rq_completed", &keys, &[]),
        term(
            Role::Answered,
            "envoy_cluster_retry_upstream_rq_completed",
            &keys,
            &[],
        ),
        term(Role::Finished, "envoy_cluster_upstream_rq_completed", &keys, &[]),
        term(Role::Failed, "envoy_cluster_upstream_rq", &keys, &[code]),
        // Final responses and those that were retried: together, what every attempt came to.
        term(Role::Rejected, "envoy_cluster_upstream_rq", &keys, &[code]),
        term(Role::Rejected, "envoy_cluster_retry_upstream_rq", &keys, &[code]),
        term(
            Role::Bucket(Unit::Milliseconds),
            "envoy_cluster_upstream_rq_time_bucket",
            &keys,
            &[],
        ),
    ]
}

/// Not every implementation counts calls: without them, retries and the calls that failed in the end are absent.
fn grpc(target: &str, codes: &[String]) -> Vec<Term> {
    let keys = vec![("grpc_target", target.to_owned())];
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let code = ("grpc_status", &codes[..]);
    let attempts = "grpc_client_attempt_duration_seconds_count";
    let calls = "grpc_client_call_duration_seconds_count";
    vec![
        term(Role::Attempts, attempts, &keys, &[]),
        term(Role::Rejected, attempts, &keys, &[code]),
        term(Role::Calls, calls, &keys, &[]),
        term(Role::Finished, calls, &keys, &[]),
        term(Role::Failed, calls, &keys, &[code]),
        term(
            Role::Bucket(Unit::Seconds),
            "grpc_client_attempt_duration_seconds_bucket",
            &keys,
            &[],
        ),
    ]
}

/// HAProxy counts the responses that clients get, by class, and the sessions with servers, one for each attempt. It does not count
/// the responses that it retried, but each retry stands for one: see [`Tally::counts`]. Its `retry_warnings` count a retry twice.
fn haproxy(backend: &str) -> Vec<Term> {
    let keys = vec![("proxy", backend.to_owned())];
    let failed = ("code", &["5xx"][..]);
    vec![
        term(Role::Attempts, "haproxy_server_sessions_total", &keys, &[]),
        term(Role::Calls, "haproxy_backend_http_requests_total", &keys, &[]),
        term(Role::Finished, "haproxy_backend_http_responses_total", &keys, &[]),
        term(
            Role::Failed,
            "haproxy_backend_http_responses_total",
            &keys,
            &[failed],
        ),
    ]
}

fn linkerd(deployment: &str, namespace: &str, codes: &[String]) -> Vec<Term> {
    let keys = vec![
        ("deployment", deployment.to_owned()),
        ("namespace", namespace.to_owned()),
    ];
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let inbound = ("direction", &["inbound"][..]);
    vec![
        term(Role::Attempts, "response_total", &keys, &[inbound]),
        term(
            Role::Rejected,
            "response_total",
            &keys,
            &[inbound, ("status_code", &codes)],
        ),
        term(
            Role::Bucket(Unit::Milliseconds),
            "response_latency_ms_bucket",
            &keys,
            &[inbound],
        ),
    ]
}

fn server(service: &str) -> Vec<Term> {
    let keys = vec![("service", service.to_owned())];
    // A request that came too late for its own deadline is not a sign of overload.
    let load = ("reason", &["in-flight", "queue-time", "processor"][..]);
    vec![
        term(Role::Attempts, "retryguard_served_total", &keys, &[]),
        // Those that were shed on arrival; `too-slow` was served for a while, and is counted there.
        term(
            Role::Attempts,
            "retryguard_shed_total",
            &keys,
            &[("reason", &["in-flight", "queue-time", "processor", "deadline"])],
        ),
        term(
            Role::Retries,
            "retryguard_served_total",
            &keys,
            &[("attempt", &["again"])],
        ),
        term(Role::Rejected, "retryguard_shed_total", &keys, &[load]),
    ]
}

fn client(target: &str) -> Vec<Term> {
    let keys = vec![("target", target.to_owned())];
    vec![
        term(Role::Attempts, "retryguard_attempts_total", &keys, &[]),
        term(
            Role::Calls,
            "retryguard_attempts_total",
            &keys,
            &[("attempt", &["1"])],
        ),
        term(
            Role::Bucket(Unit::Seconds),
            "retryguard_call_duration_seconds_bucket",
            &keys,
            &[],
        ),
    ]
}

/// What was counted for one target in one round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally {
    attempts: Option<f64>,
    calls: Option<f64>,
    retries: Option<f64>,
    retries_succeeded: Option<f64>,
    answered: Option<f64>,
    finished: Option<f64>,
    failed: Option<f64>,
    rejected: Option<f64>,
    /// Cumulative counts by upper bound in seconds.
    buckets: Vec<(f64, f64)>,
    /// A number came that cannot be true.
    nonsense: bool,
    /// Whether rejections are counted at all. Data planes make the series of a code when it first occurs, so a
    /// missing one is zero where it would be counted.
    counts_rejections: bool,
    /// Whether each retry stands for a rejection that is not counted itself.
    retries_are_rejections: bool,
}

impl Tally {
    /// For a target with these kinds of series.
    pub(crate) fn of(terms: &[Term]) -> Self {
        let has = |role| terms.iter().any(|term| term.role == role);
        Self {
            counts_rejections: has(Role::Rejected),
            retries_are_rejections: has(Role::Failed) && !has(Role::Rejected),
            ..Self::default()
        }
    }

    /// Adds what one series counted. `bound` is a bucket's upper bound as it is written.
    pub(crate) fn add(&mut self, role: Role, bound: Option<&str>, count: f64) {
        if !(count.is_finite() && count >= 0.0) {
            self.nonsense = true;
            return;
        }
        let sum = match role {
            Role::Attempts => &mut self.attempts,
            Role::Calls => &mut self.calls,
            Role::Retries => &mut self.retries,
            Role::RetriesSucceeded => &mut self.retries_succeeded,
            Role::Answered => &mut self.answered,
            Role::Finished => &mut self.finished,
            Role::Failed => &mut self.failed,
            Role::Rejected => &mut self.rejected,
            Role::Bucket(unit) => {
                // `+Inf` parses as infinity.
                let Some(bound) = bound.and_then(|bound| bound.parse::<f64>().ok()) else {
                    self.nonsense = true;
                    return;
                };
                let bound = bound * unit.seconds();
                match self.buckets.iter_mut().find(|(known, _)| *known == bound) {
                    Some((_, sum)) => *sum += count,
                    None => self.buckets.push((bound, count)),
                }
                return;
            }
        };
        *sum = Some(sum.unwrap_or(0.0) + count);
    }

    /// The counts, each times `scale`; `None` where the target was not seen or a number cannot be true.
    pub(crate) fn counts(mut self, scale: f64, quantile: Ratio) -> Option<Counts> {
        let attempts = self.attempts.filter(|_| !self.nonsense)?;
        // Attempts and calls are counted by two sides whose clocks differ: fewer attempts than calls are none
        // retried.
        let retries = match (self.retries, self.calls) {
            (Some(retries), _) => Some(within(retries, attempts)),
            (None, Some(calls)) if calls > 0.0 => Some((attempts - calls).max(0.0)),
            (None, _) => None,
        };
        if retries.is_some_and(|retries| retries > attempts) {
            return None;
        }
        let calls = attempts - retries.unwrap_or(0.0);
        // As a share of the responses that ended, because attempts are counted when they begin.
        let failed = self.finished.map(|finished| {
            let failed = within(self.failed.unwrap_or(0.0), finished);
            if finished > 0.0 {
                failed / finished * calls
            } else {
                failed
            }
        });
        // The share of rejected first attempts is not known, only that of all attempts; the two are taken for equal.
        let rejected = if self.counts_rejections {
            let rejected = self.rejected.unwrap_or(0.0);
            let whole = self.answered.unwrap_or(attempts);
            Some((within(rejected, whole), whole))
        } else if self.retries_are_rejections {
            let rejected = failed.zip(retries).map(|(failed, retries)| failed + retries);
            rejected.map(|rejected| (within(rejected, attempts), attempts))
        } else {
            None
        };
        let rejected = rejected.map(|(rejected, whole)| {
            if whole > 0.0 {
                rejected / whole * calls
            } else {
                rejected
            }
        });
        let delay = quantile_of(&mut self.buckets, quantile.as_f64());
        let scaled = |count: f64| whole(count * scale);
        Some(Counts {
            calls: scaled(calls),
            rejected: rejected.map(scaled),
            retries: retries.map(scaled),
            retries_succeeded: self
                .retries_succeeded
                .map(|succeeded| scaled(retries.map_or(succeeded, |retries| succeeded.min(retries)))),
            failed: failed.map(scaled),
            delay,
        })
    }
}

/// Rounded to the nearest; what does not fit is the largest, which is implausible.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "negative numbers were refused, and a float that is too large saturates"
)]
pub(crate) fn whole(count: f64) -> u64 {
    count.round() as u64
}

/// The quantile by linear interpolation within its bucket, as Prometheus does.
fn quantile_of(buckets: &mut [(f64, f64)], quantile: f64) -> Option<Duration> {
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (_, total) = *buckets.last()?;
    if total <= 0.0 {
        return None;
    }
    let rank = quantile * total;
    let place = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (upper, count) = buckets[place];
    let (lower, below) = match place.checked_sub(1) {
        Some(before) => buckets[before],
        None => (0.0, 0.0),
    };
    // Beyond the last finite bound nothing is known but that it is longer.
    let seconds = if upper.is_infinite() || count <= below {
        lower
    } else {
        lower + (upper - lower) * ((rank - below) / (count - below)).clamp(0.0, 1.0)
    };
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

#[cfg(test)]
mod tests;
