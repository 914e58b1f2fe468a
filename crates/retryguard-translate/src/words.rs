//! What other systems call the settings that the linter speaks of.

use std::time::Duration;

use retryguard_policy::Policy;

use crate::{Format, units};

/// The key of a policy that a finding is about.
pub(crate) fn key(code: &str) -> &'static str {
    match code {
        "RG005" => "jitter",
        "RG006" | "RG018" => "maxDelay",
        "RG010" | "RG019" => "attemptTimeout",
        "RG012" => "breaker",
        "RG013" => "hedge",
        "RG014" => "retryOn",
        "RG015" | "RG021" => "budget",
        "RG022" => "deadline",
        "RG023" => "gate",
        _ => "maxRetries",
    }
}

/// Whether what is missing would be written beside the number of retries.
pub(crate) fn stands_with_retries(code: &str) -> bool {
    !matches!(code, "RG013" | "RG022")
}

/// Whether a cure is not for the block that a finding is about: it names another one, or none can be written.
pub(crate) fn stands_elsewhere(code: &str, cure: &str) -> bool {
    matches!(code, "RG012" | "RG015" | "RG016" | "RG021") || cure.contains("has no setting")
}

/// The words of one system. A cure may say `{service}`.
pub(crate) struct Words {
    /// How to make fewer attempts.
    fewer: &'static str,
    /// How to switch retries off.
    none: &'static str,
    /// The key of one attempt's timeout; empty where there is none.
    attempt_timeout: &'static str,
    /// The key of the whole call's timeout; empty where there is none.
    deadline: &'static str,
    /// How to bound the waits.
    cap: &'static str,
    /// The key of the longest wait.
    cap_key: &'static str,
    /// How to spread the waits.
    jitter: &'static str,
    /// What lists the failures that are retried.
    retry_on: &'static str,
    /// How to retry idempotent requests alone.
    idempotent: &'static str,
    /// How to bound all retries together.
    budget: &'static str,
    /// How to lower that bound.
    less_budget: &'static str,
    /// How to suspend retries while they do harm.
    guard: &'static str,
    /// How to make the breaker count more failures.
    breaker: &'static str,
    /// How to hedge less.
    hedge: &'static str,
    /// How to obey Retry-After.
    gate: &'static str,
}

impl Words {
    pub(crate) const fn of(format: Format) -> &'static Self {
        match format {
            Format::Envoy => &ENVOY,
            Format::Istio => &ISTIO,
            Format::GatewayApi => &GATEWAY_API,
            Format::Grpc => &GRPC,
            Format::Aws => &AWS,
            Format::Resilience4j => &RESILIENCE4J,
            Format::Polly => &POLLY,
        }
    }

    /// A message with the keys of this system in place of the policy's.
    pub(crate) fn in_message(&self, message: &str) -> String {
        let own = |key: &str, word: &str| {
            if word.is_empty() {
                key.to_owned()
            } else {
                word.to_owned()
            }
        };
        message
            .replace(
                "`attemptTimeout`",
                &own("timeout of one attempt", self.attempt_timeout),
            )
            .replace("`maxDelay`", &own("longest wait", self.cap_key))
    }

    /// What to do about a finding; `None` where the linter's own words hold for any system.
    pub(crate) fn cure(&self, code: &str, times: &Times) -> Option<String> {
        let plain = |text: &str| Some(text.to_owned());
        match code {
            "RG001" => plain(self.fewer),
            "RG005" => plain(self.jitter),
            "RG006" => plain(self.cap),
            "RG007" => Some(self.shorter("all attempts fit", times.all_fitting())),
            "RG010" => Some(self.shorter("another attempt fits", times.fitting())),
            "RG011" => plain(self.idempotent),
            "RG012" => plain(self.breaker),
            "RG013" => plain(self.hedge),
            "RG014" => Some(format!("remove it from {}", self.retry_on)),
            "RG015" => plain(self.budget),
            "RG016" => plain(self.guard),
            "RG017" => Some(format!(
                "retry at one layer only: {} here where `{{service}}` itself retries, or where the layer above does",
                self.none
            )),
            "RG018" => Some(format!("lower {} to a wait that the retries reach", self.cap_key)),
            "RG019" => Some(if self.attempt_timeout.is_empty() {
                "give every attempt a timeout in the client's code, a little above the 99th percentile of `{service}`".to_owned()
            } else {
                let most = times
                    .fitting()
                    .map_or_else(String::new, |most| format!(", and not above {most}"));
                format!(
                    "set {} a little above the 99th percentile of `{{service}}`{most}",
                    self.attempt_timeout
                )
            }),
            "RG021" => plain(self.less_budget),
            "RG022" => Some(if self.deadline.is_empty() {
                "bound the whole call in the client's code; a bound that is too long is far better than none"
                    .to_owned()
            } else {
                format!(
                    "set {} to as long as a caller waits; one that is too long is far better than none",
                    self.deadline
                )
            }),
            "RG023" => plain(self.gate),
            _ => None,
        }
    }

    fn shorter(&self, aim: &str, most: Option<String>) -> String {
        let whole = if self.deadline.is_empty() {
            "the time of the whole call"
        } else {
            self.deadline
        };
        match (self.attempt_timeout, most) {
            ("", _) | (_, None) => format!("raise {whole}, or {}, until {aim} into it", self.fewer),
            (key, Some(most)) => format!("set {key} to {most} or less, so that {aim} into {whole}"),
        }
    }
}

/// The times of a service that cures are computed from.
pub(crate) struct Times {
    deadline: Option<Duration>,
    /// The longest wait before each retry.
    waits: Vec<Duration>,
}

impl Times {
    pub(crate) fn of(policy: &Policy, name: &str) -> Self {
        let service = policy.service(name);
        let call = &service.target.call;
        Self {
            deadline: call.deadline,
            waits: (1..=call.retries)
                .map(|retry| call.backoff.longest(u32::from(retry)))
                .collect(),
        }
    }

    /// The longest attempt of which two or three fit into the deadline.
    fn fitting(&self) -> Option<String> {
        self.share(self.waits.len().min(2))
    }

    /// The longest attempt of which all fit into the deadline.
    fn all_fitting(&self) -> Option<String> {
        self.share(self.waits.len())
    }

    /// What is left for each attempt when so many retries have waited as long as they may, rounded down.
    fn share(&self, retries: usize) -> Option<String> {
        let waits: Duration = self.waits.iter().take(retries).sum();
        let attempts = u32::try_from(retries).ok()? + 1;
        let share = self.deadline?.checked_sub(waits)? / attempts;
        let step = if share >= Duration::from_secs(1) { 100 } else { 10 };
        let millis = u64::try_from(share.as_millis()).ok()? / step * step;
        (millis > 0).then(|| units::written(Duration::from_millis(millis)))
    }
}

const ENVOY: Words = Words {
    fewer: "set `num_retries` of the retry policy to 2 or less",
    none: "`num_retries: 0`",
    attempt_timeout: "`per_try_timeout`",
    deadline: "the route's `timeout`",
    cap: "set `max_interval` of `retry_back_off` to some seconds",
    cap_key: "`max_interval`",
    jitter: "remove `retry_back_off`: Envoy's waits have jitter",
    retry_on: "`retry_on` or `retriable_status_codes`",
    idempotent: "give GET and HEAD a route of their own (a `:method` header match), and the other one no retry policy",
    budget: "write `retry_budget: {budget_percent: {value: 20}}` into `circuit_breakers.thresholds` of cluster `{service}`",
    less_budget: "set `budget_percent` of the retry budget to 20 or less",
    guard: "Envoy has no setting for this: `retryguard controller` suspends the cluster's retries while they do harm",
    breaker: "raise `consecutive_5xx` of `outlier_detection` well above the attempts of one call, or lower `num_retries`",
    hedge: "remove `hedge_policy`, or write a `retry_budget` into the cluster",
    gate: "write `rate_limited_retry_back_off: {reset_headers: [{name: Retry-After, format: SECONDS}]}` into the retry policy",
};

const ISTIO: Words = Words {
    fewer: "set `retries.attempts` to 2 or less",
    none: "`retries: {attempts: 0}`",
    attempt_timeout: "`retries.perTryTimeout`",
    deadline: "the route's `timeout`",
    cap: "set `retries.backoff` to some milliseconds",
    cap_key: "`retries.backoff`",
    jitter: "remove `retries.backoff`: Istio's waits have jitter",
    retry_on: "`retries.retryOn`, or write that key without it",
    idempotent: "give GET and HEAD a route of their own (`match: [{method: {regex: GET|HEAD}}]`), and the other one \
                 `retries: {attempts: 0}`",
    budget: "write `trafficPolicy: {retryBudget: {percent: 20, minRetryConcurrency: 3}}` into the DestinationRule of `{service}`, \
             from Istio 1.27 on",
    less_budget: "set `retryBudget.percent` of the DestinationRule to 20 or less",
    guard: "Istio has no setting for this: `retryguard controller` sets `retries.attempts` to 0 while retries do harm",
    breaker: "raise `outlierDetection.consecutive5xxErrors` well above the attempts of one call, or lower `retries.attempts`",
    hedge: "Istio does not hedge: remove the EnvoyFilter",
    gate: "Istio has no setting for this: an EnvoyFilter can write `rate_limited_retry_back_off` into the route",
};

const GATEWAY_API: Words = Words {
    fewer: "set `retry.attempts` to 2 or less",
    none: "remove `retry`",
    attempt_timeout: "`timeouts.backendRequest`",
    deadline: "`timeouts.request`",
    cap: "set `retry.backoff` to some milliseconds",
    cap_key: "`retry.backoff`",
    jitter: "the implementation chooses the jitter: look into its documentation",
    retry_on: "`retry.codes`",
    idempotent: "give GET and HEAD a rule of their own (`matches: [{method: GET}]`), and the other one no `retry`",
    budget: "write an XBackendTrafficPolicy for `{service}` with `retryConstraint: {budget: {percent: 20, interval: 10s}}`",
    less_budget: "set `retryConstraint.budget.percent` to 20 or less",
    guard: "the Gateway API has no setting for this: `retryguard controller` takes `retry` out of the HTTPRoute while retries do harm",
    breaker: "lower `retry.attempts`",
    hedge: "the Gateway API does not hedge",
    gate: "the Gateway API has no setting for this: ask the implementation to obey Retry-After",
};

const GRPC: Words = Words {
    fewer: "set `maxAttempts` of `retryPolicy` to 3 or less",
    none: "remove `retryPolicy`",
    attempt_timeout: "",
    deadline: "`timeout` of the method config",
    cap: "set `maxBackoff` to some seconds",
    cap_key: "`maxBackoff`",
    jitter: "gRPC spreads every wait by 20 %: nothing can be set",
    retry_on: "`retryableStatusCodes`",
    idempotent: "list the idempotent methods by name in a method config with `retryPolicy`, and leave it out for the others",
    budget: "write `\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.1}` beside `methodConfig`",
    less_budget: "lower `tokenRatio` of `retryThrottling` to 0.2 or less",
    guard: "gRPC has no setting for this: `retryguard controller` tells clients over xDS how often to retry",
    breaker: "lower `maxAttempts`",
    hedge: "write `retryThrottling` beside `methodConfig`: it holds for hedges, too",
    gate: "a server can send `grpc-retry-pushback-ms`, which gRPC obeys for the call that met it",
};

const AWS: Words = Words {
    fewer: "set `max_attempts` (`AWS_MAX_ATTEMPTS`) to 3 or less",
    none: "`max_attempts = 1`",
    attempt_timeout: "",
    deadline: "",
    cap: "set `retry_mode = standard`: its waits end at 20 s",
    cap_key: "the longest wait",
    jitter: "set `retry_mode = standard`",
    retry_on: "the client's retry conditions, in code",
    idempotent: "most operations of AWS are idempotent or take a token (`ClientToken`): set one in code where yours does, and \
                 `max_attempts = 1` for a client whose operations do not",
    budget: "set `retry_mode = standard` (`AWS_RETRY_MODE`): it has a quota of retries",
    less_budget: "set `retry_mode = standard`",
    guard: "the SDKs have no setting for this: `retryguard controller` sets `AWS_MAX_ATTEMPTS` of a function to 1 while they do harm",
    breaker: "lower `max_attempts`",
    hedge: "the SDKs do not hedge",
    gate: "set `retry_mode = adaptive`: after a throttling answer the whole client sends more slowly",
};

const RESILIENCE4J: Words = Words {
    fewer: "set `maxAttempts` of the retry to 3 or less",
    none: "`maxAttempts: 1`",
    attempt_timeout: "`timeoutDuration` of the time limiter",
    deadline: "",
    cap: "set `exponentialMaxWaitDuration` to some seconds",
    cap_key: "`exponentialMaxWaitDuration`",
    jitter: "write `enableRandomizedWait: true`",
    retry_on: "`retryExceptions`",
    idempotent: "use an instance without retries for requests that are not idempotent",
    budget: "resilience4j has no budget of retries: lower `maxAttempts`, or take the number from the policy server, which a \
             controller lowers",
    less_budget: "lower `maxAttempts`",
    guard: "resilience4j has no setting for this: a client of the policy server takes `maxRetries` from a controller that measures",
    breaker: "raise `minimumNumberOfCalls` well above the attempts of one call, or put the circuit breaker around the retry",
    hedge: "resilience4j does not hedge",
    gate: "resilience4j reads no headers: compute the wait from Retry-After with an `intervalBiFunction`",
};

const POLLY: Words = Words {
    fewer: "set `MaxRetryAttempts` to 2 or less",
    none: "remove `Retry`",
    attempt_timeout: "`AttemptTimeout.Timeout`",
    deadline: "`TotalRequestTimeout.Timeout`",
    cap: "set `MaxDelay` to some seconds",
    cap_key: "`MaxDelay`",
    jitter: "set `UseJitter` to true",
    retry_on: "`ShouldHandle`",
    idempotent: "call `DisableForUnsafeHttpMethods()` on the retry options, or use a pipeline without retries",
    budget: "Polly has no budget of retries: lower `MaxRetryAttempts`, or take the number from the policy server, which a \
             controller lowers",
    less_budget: "lower `MaxRetryAttempts`",
    guard: "Polly has no setting for this: a client of the policy server takes `maxRetries` from a controller that measures",
    breaker: "raise `MinimumThroughput` well above the attempts of one call, or put the circuit breaker around the retry",
    hedge: "set `MaxHedgedAttempts` to 0, or bound it with a rate limiter",
    gate: "Polly waits as the answer asks, but only the call that met it: a circuit breaker holds back the others",
};
