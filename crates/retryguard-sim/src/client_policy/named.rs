//! The policies that are known by name.

use std::{sync::Arc, time::Duration};

use retryguard_core::{
    Backoff, Ratio,
    backoff::{Growth, Jitter},
    budget, call, target,
};
use retryguard_policy::Policy;

use super::{Adaptive, ClientPolicy, Extra, Rules};

/// Every known name, with what it is.
pub const NAMES: &[(&str, &str)] = &[
    ("none", "no retries at all"),
    ("immediate", "two retries at once, without any wait"),
    ("fixed", "two retries, a second apart"),
    (
        "aws-legacy",
        "botocore's legacy mode: 5 attempts, U(0,1) s doubling, no quota",
    ),
    (
        "aws-legacy-dynamodb",
        "its DynamoDB entry: 10 attempts, 50 ms doubling, no jitter",
    ),
    (
        "aws-standard",
        "3 attempts, jitter up to 20 s, a quota of 500 tokens a client",
    ),
    ("aws-adaptive", "aws-standard and a send limiter a client"),
    (
        "istio",
        "Istio's default: 2 retries under Envoy's backoff, no bound on concurrent retries",
    ),
    ("envoy", "2 retries, at most 3 concurrent retries a client"),
    (
        "envoy-budget",
        "2 retries, concurrent retries at most 20 % of the active requests, at least 3",
    ),
    (
        "finagle",
        "2 retries, a budget of 20 % over 10 s and 10 a second from the start",
    ),
    (
        "grpc",
        "2 retries, gRPC's retry throttling (10 tokens, 0.1 a success)",
    ),
    (
        "gradient2",
        "2 retries over Netflix's Gradient2 limit on concurrency, in windows of a second",
    ),
    ("vegas", "2 retries over Netflix's Vegas limit on concurrency"),
    ("failsafe-go", "2 retries over failsafe-go's adaptive limiter"),
    (
        "envoy-adaptive",
        "envoy under Envoy's adaptive concurrency filter",
    ),
    ("retryguard", "our default policy"),
    (
        "oracle",
        "sends exactly when the target has room: the limit that no policy can pass",
    ),
];

/// The policy of this name.
#[must_use]
pub fn named(name: &str) -> Option<ClientPolicy> {
    let client_policy = match name {
        "none" => foreign(name, 0, Backoff::default()),
        "immediate" => foreign(name, 2, backoff(0, 0, Jitter::None)),
        "fixed" => foreign(
            name,
            2,
            Backoff {
                growth: Growth::Constant,
                ..backoff(1000, 1000, Jitter::None)
            },
        ),
        "aws-legacy" => foreign(name, 4, backoff(1000, LONG, Jitter::Full)),
        "aws-legacy-dynamodb" => foreign(name, 9, backoff(50, LONG, Jitter::None)),
        "aws-standard" => aws_standard(name),
        "aws-adaptive" => ClientPolicy {
            extra: Extra::SendLimiter,
            ..aws_standard(name)
        },
        "istio" => foreign(name, 2, envoy()),
        "envoy" => ClientPolicy {
            extra: Extra::ConcurrentRetries { share: 0.0, least: 3 },
            ..foreign(name, 2, envoy())
        },
        "envoy-budget" => ClientPolicy {
            extra: Extra::ConcurrentRetries { share: 0.2, least: 3 },
            ..foreign(name, 2, envoy())
        },
        "finagle" => ClientPolicy {
            extra: Extra::Deposits {
                share: 0.2,
                window: Duration::from_secs(10),
                reserve: 100.0,
            },
            ..foreign(name, 2, backoff(100, 10_000, Jitter::Full))
        },
        "grpc" => ClientPolicy {
            extra: Extra::Tokens {
                most: 10.0,
                gain: 0.1,
            },
            ..foreign(name, 2, backoff(100, 1000, Jitter::Full))
        },
        "gradient2" => limited(name, Adaptive::Gradient2),
        "vegas" => limited(name, Adaptive::Vegas),
        "failsafe-go" => limited(name, Adaptive::FailsafeGo),
        "envoy-adaptive" => ClientPolicy {
            extra: Extra::Adaptive(Adaptive::Envoy),
            ..foreign(name, 2, envoy())
        },
        "retryguard" => ClientPolicy::of_policy(name, Policy::default()),
        "oracle" => ClientPolicy {
            oracle: true,
            propagates: true,
            outbox: false,
            ..foreign(name, u8::MAX, backoff(0, 0, Jitter::None))
        },
        _ => return None,
    };
    Some(client_policy)
}

/// "No cap", in milliseconds: longer than any run.
const LONG: u64 = 1_000_000_000;

fn backoff(initial: u64, cap: u64, jitter: Jitter) -> Backoff {
    Backoff {
        growth: Growth::Exponential(Ratio::from_parts(2 * Ratio::PARTS)),
        initial: Duration::from_millis(initial),
        cap: Duration::from_millis(cap),
        jitter,
        stop_beyond: None,
    }
}

/// Uniform below 25, 50, 100, 200, 250 ms.
fn envoy() -> Backoff {
    backoff(25, 250, Jitter::Full)
}

/// The policy of another library: so many retries, and none of our protections. It does not know the mark that a
/// layer below has already retried.
fn foreign(name: &str, retries: u8, backoff: Backoff) -> ClientPolicy {
    let settings = target::Settings {
        call: call::Settings {
            retries,
            backoff,
            attempt_timeout: None,
            deadline: None,
            least_attempt: Duration::ZERO,
            retry_retried: true,
            ..call::Settings::default()
        },
        ..target::Settings::default()
    };
    ClientPolicy {
        name: name.to_owned(),
        rules: Rules::Same(Arc::new(settings)),
        extra: Extra::None,
        shared: false,
        oracle: false,
        propagates: false,
        outbox: false,
        shares_clock: true,
        notes: Vec::new(),
    }
}

/// Two retries over an adaptive limit: an attempt above the limit fails and is retried as any other.
fn limited(name: &str, which: Adaptive) -> ClientPolicy {
    ClientPolicy {
        extra: Extra::Adaptive(which),
        ..foreign(name, 2, backoff(100, 10_000, Jitter::Full))
    }
}

fn aws_standard(name: &str) -> ClientPolicy {
    let mut client_policy = foreign(name, 2, backoff(1000, 20_000, Jitter::Full));
    client_policy.change(|settings| {
        settings.budget = Some(budget::Settings::Quota {
            capacity: 500,
            retry_cost: 5,
            timeout_cost: 10,
            success_gain: 1,
        });
    });
    client_policy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_known() {
        for (name, _) in NAMES {
            assert_eq!(named(name).unwrap().name, *name);
        }
        assert!(named("nonesuch").is_none());
    }

    #[test]
    fn the_dynamodb_table_waits_25_55_seconds_in_all() {
        let settings = named("aws-legacy-dynamodb").unwrap().settings("db");
        let sum: Duration = (1..=9).map(|retry| settings.call.backoff.longest(retry)).sum();
        assert_eq!(sum, Duration::from_millis(25_550));
    }
}
