//! From a policy to the configuration of another system.

mod envoy;
mod gateway_api;
mod grpc;
mod istio;
mod yaml;

use std::{fmt, sync::Arc, time::Duration};

use retryguard_core::{
    backoff::{Growth, Jitter},
    breaker::Trip,
    budget, bulkhead,
    gate::Scope,
};
use retryguard_policy::{Policy, Service};
use serde_json::json;

use crate::{signals::Signals, units::written};

/// A system that a policy can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A bootstrap of Envoy with a route and a cluster for each service.
    Envoy,
    /// A VirtualService and a DestinationRule for each service.
    Istio,
    /// An HTTPRoute and an XBackendTrafficPolicy for each service.
    GatewayApi,
    /// A gRPC service config.
    Grpc,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 4] = [Self::Envoy, Self::Istio, Self::GatewayApi, Self::Grpc];

    /// The word of the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::GatewayApi => "gateway-api",
            Self::Grpc => "grpc",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A policy in the words of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The file.
    pub text: String,
    /// What it does not say.
    pub losses: Vec<Loss>,
}

impl Rendered {
    /// The file and what it does not say, as JSON.
    #[must_use]
    pub fn json(&self, target: Target) -> String {
        let losses: Vec<_> = self
            .losses
            .iter()
            .map(|loss| json!({"service": loss.service, "what": loss.what}))
            .collect();
        format!(
            "{:#}\n",
            json!({"to": target.as_str(), "text": self.text, "losses": losses})
        )
    }
}

/// Something of a policy that the other system cannot do, or does differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The service.
    pub service: String,
    /// What, and what happens instead.
    pub what: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.service, self.what)
    }
}

/// Writes a policy for another system. A policy that lists no service is written as one service named `default`.
#[must_use]
pub fn render(policy: &Policy, target: Target) -> Rendered {
    let mut services: Vec<Arc<Service>> = policy
        .services()
        .map(|(_, service)| Arc::clone(service))
        .collect();
    if services.is_empty() {
        services.push(policy.service("default"));
    }
    let mut losses = Losses::default();
    let text = match target {
        Target::Envoy => envoy::text(&services, &mut losses),
        Target::Istio => istio::text(&services, &mut losses),
        Target::GatewayApi => gateway_api::text(&services, &mut losses),
        Target::Grpc => grpc::text(&services, &mut losses),
    };
    let heading = format!(
        "Rendered from the RetryGuard policy {} for {target}.\n",
        policy.digest()
    );
    let text = if target == Target::Grpc {
        // JSON has no comments.
        text
    } else {
        format!("# {heading}{text}")
    };
    Rendered {
        text,
        losses: losses.0,
    }
}

/// Collects losses.
#[derive(Default)]
struct Losses(Vec<Loss>);

impl Losses {
    fn add(&mut self, service: &Service, what: impl Into<String>) {
        self.0.push(Loss {
            service: service.name.clone(),
            what: what.into(),
        });
    }
}

/// What every system is asked for.
struct View<'a> {
    service: &'a Service,
    retries: u8,
    signals: Signals,
    /// Which methods alone are retried; `None` for all.
    methods: Option<&'a [String]>,
    deadline: Option<Duration>,
    attempt_timeout: Option<Duration>,
}

impl<'a> View<'a> {
    fn of(service: &'a Service) -> Self {
        let call = &service.target.call;
        let all = service.idempotency.retry_non_idempotent || service.idempotency.add_keys;
        Self {
            service,
            retries: call.retries,
            signals: Signals::of(&service.classifier),
            methods: (!all && call.retries > 0).then_some(service.idempotency.methods.as_slice()),
            deadline: call.deadline,
            attempt_timeout: call.attempt_timeout,
        }
    }

    fn backoff(&self) -> &retryguard_core::Backoff {
        &self.service.target.call.backoff
    }

    /// What none of the systems has.
    fn common_losses(&self, losses: &mut Losses) {
        let target = &self.service.target;
        if target.guard.is_some() && self.retries > 0 {
            losses.add(self.service, "the guard: run `retryguard controller` beside it");
        }
        if !target.call.retry_retried && self.retries > 0 {
            losses.add(
                self.service,
                "a failure that a layer below has retried is retried again",
            );
        }
        if target.throttle.is_some() {
            losses.add(self.service, "the throttle");
        }
        if target.hedge.is_some() {
            losses.add(self.service, "hedges");
        }
        if self.service.idempotency.add_keys {
            losses.add(
                self.service,
                "no idempotency key is added: retried requests must carry one",
            );
        }
        if target.call.backoff.stop_beyond.is_some() {
            losses.add(self.service, "`stopBeyond`");
        }
    }

    /// Growth and jitter that differ from Envoy's: doubling, uniform from zero.
    fn backoff_losses(&self, losses: &mut Losses) {
        let backoff = self.backoff();
        if self.retries == 0 {
            return;
        }
        let doubles = matches!(backoff.growth, Growth::Exponential(factor) if factor.as_f64() == 2.0);
        if !doubles && self.retries > 1 {
            losses.add(self.service, "the delays double from one retry to the next");
        }
        if backoff.jitter != Jitter::Full {
            losses.add(self.service, "the jitter is full: uniform from zero to the delay");
        }
    }

    /// A share of the calls for a retry budget, where the policy has one that a system can hold.
    fn budget_percent(&self, losses: &mut Losses, most: f64) -> Option<f64> {
        if self.retries == 0 {
            return None;
        }
        let percent = match self.service.target.budget? {
            budget::Settings::Ratio { ratio, .. } => ratio.as_f64() * 100.0,
            budget::Settings::Adaptive { most, .. } => {
                losses.add(
                    self.service,
                    "the adaptive budget becomes a fixed one of its largest share",
                );
                most.as_f64() * 100.0
            }
            _ => {
                losses.add(self.service, "the quota becomes a budget of 20 %");
                20.0
            }
        };
        // Shares are kept in billionths: a hundred times one of them is a round number again.
        let percent = (percent * 1e7).round() / 1e7;
        if percent > most {
            losses.add(self.service, format!("a budget of {percent} % becomes {most} %"));
        }
        Some(percent.min(most))
    }

    /// The budget's interval and least rate, where they are not what `percent` alone would mean on the way back.
    fn budget_details(&self, losses: &mut Losses) {
        let usual = budget::Settings::default();
        if let (
            Some(budget::Settings::Ratio { window, reserve, .. }),
            budget::Settings::Ratio {
                window: usual_window,
                reserve: usual_reserve,
                ..
            },
        ) = (self.service.target.budget, usual)
            && self.retries > 0
            && (window != usual_window || reserve != usual_reserve)
        {
            losses.add(
                self.service,
                "the budget bounds concurrent retries: its interval and least rate are not there",
            );
        }
    }

    /// The limit of a fixed bulkhead.
    fn limit(&self, losses: &mut Losses) -> Option<u32> {
        let bulkhead = self.service.target.bulkhead?;
        match bulkhead.limit {
            bulkhead::Limit::Fixed(limit) => {
                if !bulkhead.wait.is_zero() || bulkhead.waiting > 0 {
                    losses.add(self.service, "the wait for a place of the bulkhead");
                }
                Some(limit)
            }
            _ => {
                losses.add(self.service, "the bulkhead that follows the latency");
                None
            }
        }
    }

    /// Failures in a row and the time a breaker stays open, where it counts in a row.
    fn breaker(&self, losses: &mut Losses) -> Option<(u32, Duration, Duration)> {
        let breaker = self.service.target.breaker?;
        let Trip::Consecutive(failures) = breaker.trip else {
            losses.add(
                self.service,
                "the breaker: only failures in a row can be counted there (`trip: consecutive`)",
            );
            return None;
        };
        losses.add(
            self.service,
            "the breaker becomes an outlier detection of single hosts; it has no probes: a host comes back after its time",
        );
        Some((failures, breaker.open_for, breaker.open_for_at_most))
    }

    /// The longest Retry-After that a retry waits for.
    fn retry_after(&self, losses: &mut Losses) -> Option<Duration> {
        let gate = self.service.target.gate;
        if gate.at_most.is_zero() || self.retries == 0 {
            return None;
        }
        if gate.scope != Scope::Call {
            losses.add(self.service, "a Retry-After holds back only the call that met it");
        }
        Some(gate.at_most)
    }

    fn no_retry_after(&self, losses: &mut Losses) {
        if self.retries > 0 && !self.service.target.gate.at_most.is_zero() {
            losses.add(self.service, "Retry-After is not obeyed");
        }
    }
}

/// A name that Kubernetes takes, and that no other service has.
fn object_name(name: &str, index: usize) -> String {
    let mut plain: String = name
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
            _ => '-',
        })
        .take(50)
        .collect();
    // No part between dots may be empty or begin or end with a dash.
    plain = plain
        .split('.')
        .map(|part| part.trim_matches('-'))
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(".");
    if plain == name {
        plain
    } else if plain.is_empty() {
        format!("service-{index}")
    } else {
        format!("{plain}-{index}")
    }
}

/// A duration in whole milliseconds, at least one; what is cut off is a loss.
fn millis(span: Duration, view: &View<'_>, losses: &mut Losses) -> Duration {
    let held = Duration::from_millis(u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
    let held = held.max(Duration::from_millis(1));
    if held != span {
        losses.add(
            view.service,
            format!(
                "{} becomes {}: times are whole milliseconds there",
                written(span),
                written(held)
            ),
        );
    }
    held
}
