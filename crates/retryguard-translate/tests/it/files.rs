//! Files as they are found in the field.

use std::time::Duration;

use retryguard_core::{
    Ratio,
    backoff::Jitter,
    breaker::{Slow, Trip},
    budget,
};
use retryguard_policy::{NetworkError, Policy, lint};
use retryguard_translate::{Beside, Format, Imported, import, lint_file};

pub(crate) fn imported(text: &str, format: Format) -> (Imported, Policy) {
    assert_eq!(Format::detect(text), Some(format), "{text}");
    let imported = import(text, format).unwrap_or_else(|error| panic!("{error}"));
    let policy =
        Policy::parse(&imported.policy).unwrap_or_else(|error| panic!("{}\n{error}", imported.policy));
    // What is imported can always be judged.
    lint(&imported.policy).expect("a policy");
    (imported, policy)
}

pub(crate) fn note(imported: &Imported, line: u32, words: &str) {
    let found = imported
        .notes
        .iter()
        .any(|note| note.line == line && note.message.contains(words));
    assert!(found, "line {line}: {words} in {:#?}", imported.notes);
}

const ENVOY: &str = r#"static_resources:
  listeners:
  - name: ingress
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          route_config:
            virtual_hosts:
            - name: shop
              domains: ["*"]
              retry_policy: {retry_on: connect-failure, num_retries: 1}
              routes:
              - match: {prefix: /orders}
                route:
                  cluster: orders
                  timeout: 3s
                  retry_policy:
                    retry_on: 5xx,http3-post-connect-failure
                    num_retries: 3
                    per_try_timeout: 0.5s
                    retry_host_predicate: []
                    retry_back_off: {base_interval: 0.1s, max_interval: 1s}
              - match: {prefix: /}
                route: {cluster: web}
  clusters:
  - name: orders
    lb_policy: ROUND_ROBIN
    circuit_breakers:
      thresholds:
      - {max_connections: 50, max_requests: 200, retry_budget: {budget_percent: {value: 25.0}, min_retry_concurrency: 5}}
    outlier_detection: {consecutive_5xx: 7, base_ejection_time: 10s}
  - name: web
    outlier_detection: {consecutive_5xx: 9, base_ejection_time: 20s, max_ejection_percent: 100}
"#;

#[test]
fn envoy_with_routes_and_clusters() {
    let (imported, policy) = imported(ENVOY, Format::Envoy);
    let orders = policy.service("orders");
    let call = &orders.target.call;
    assert_eq!(call.retries, 3);
    assert_eq!(call.deadline, Some(Duration::from_secs(3)));
    assert_eq!(call.attempt_timeout, Some(Duration::from_millis(500)));
    assert_eq!(
        (call.backoff.initial, call.backoff.cap),
        (Duration::from_millis(100), Duration::from_secs(1))
    );
    assert_eq!(call.backoff.jitter, Jitter::Full);
    assert!(call.retry_retried && orders.idempotency.retry_non_idempotent);
    assert!(orders.target.guard.is_none() && orders.target.breaker.is_none());
    assert!(
        matches!(orders.target.budget, Some(budget::Settings::Ratio { ratio, .. }) if ratio.as_f64() == 0.25)
    );
    // A virtual host's policy holds for routes without their own, and fifteen seconds is Envoy's timeout.
    let web = policy.service("web");
    assert_eq!(web.target.call.retries, 1);
    assert_eq!(web.target.call.deadline, Some(Duration::from_secs(15)));
    assert_eq!(
        (web.target.call.backoff.initial, web.target.call.backoff.cap),
        (Duration::from_millis(25), Duration::from_millis(250))
    );
    assert!(matches!(web.target.breaker.unwrap().trip, Trip::Consecutive(9)));
    let retried = |error| match web.classifier.network(error) {
        retryguard_core::Outcome::Failure(failure) => failure.retryable,
        _ => false,
    };
    assert!(retried(NetworkError::Connect) && !retried(NetworkError::Reset));
    let line = imported
        .policy
        .lines()
        .position(|line| line == "  orders:")
        .unwrap();
    let line = u32::try_from(line).unwrap() + 1;
    // The block stands where its route does, and each key where it is written.
    assert_eq!(imported.source_line(line), 16);
    assert_eq!(imported.source_line(line + 1), 20);
    note(&imported, 19, "http3-post-connect-failure");
    note(&imported, 22, "retry_host_predicate");
    note(&imported, 31, "max_connections");
    note(&imported, 31, "active requests");
    note(&imported, 32, "at most 10 % of the hosts");
    note(&imported, 34, "opens for the target as a whole");
    // The two clusters bound concurrent retries differently.
    assert_eq!(imported.beside, Beside::None);
}

#[test]
fn a_service_that_is_not_routed_is_not_retried_and_three_at_once_is_envoys_bound() {
    let text = "virtual_hosts:\n- name: a\n  domains: ['*']\n  routes:\n  - match: {prefix: /}\n    route:\n      \
                cluster: a\n      retryPolicy: {retryOn: gateway-error}\n";
    let (imported, policy) = imported(text, Format::Envoy);
    assert_eq!(policy.service("a").target.call.retries, 1);
    assert_eq!(policy.service("other").target.call.retries, 0);
    assert_eq!(
        imported.beside,
        Beside::ConcurrentRetries { share: 0.0, least: 3 }
    );
    note(&imported, 7, "at most 3 retries at once");
}

const ISTIO: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - match: [{uri: {prefix: /slow}}]
    route: [{destination: {host: reviews, subset: v2}}]
    retries: {attempts: 0}
  - route: [{destination: {host: reviews, subset: v1}}]
    timeout: 10s
    retries:
      attempts: 5
      perTryTimeout: 2s
      retryOn: gateway-error,connect-failure,429
      retryRemoteLocalities: true
  tcp: []
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews.shop.svc.cluster.local
  trafficPolicy:
    connectionPool: {http: {http2MaxRequests: 100, maxRetries: 0}}
    outlierDetection: {consecutive5xxErrors: 3, baseEjectionTime: 5s, maxEjectionPercent: 100}
    retryBudget: {percent: 30, minRetryConcurrency: 10}
---
apiVersion: v1
kind: Service
metadata: {name: reviews}
";

#[test]
fn istio_with_its_defaults_and_traps() {
    let (imported, policy) = imported(ISTIO, Format::Istio);
    let reviews = policy.service("reviews");
    assert_eq!(reviews.target.call.retries, 5);
    assert_eq!(reviews.target.call.attempt_timeout, Some(Duration::from_secs(2)));
    assert_eq!(reviews.target.call.deadline, Some(Duration::from_secs(10)));
    assert!(matches!(
        reviews.target.breaker.unwrap().trip,
        Trip::Consecutive(3)
    ));
    assert!(reviews.target.bulkhead.is_some());
    assert!(
        matches!(reviews.target.budget, Some(budget::Settings::Ratio { ratio, .. }) if ratio.as_f64() == 0.3)
    );
    // A service without a VirtualService has Istio's own two retries, and no timeout.
    let other = policy.service("ratings");
    assert_eq!((other.target.call.retries, other.target.call.deadline), (2, None));
    assert_eq!(policy.services().count(), 1, "the rule's host is the route's");
    note(
        &imported,
        10,
        "the one with 5 retries is kept, the one with 0 is not",
    );
    note(&imported, 16, "retryRemoteLocalities");
    note(&imported, 25, "does not switch retries off");
    note(&imported, 29, "a Service says nothing");
    assert_eq!(
        imported.beside,
        Beside::ConcurrentRetries {
            share: 0.3,
            least: 10
        }
    );
}

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  rules:
  - backendRefs: [{name: shop, port: 8080}]
    timeouts: {request: 3s, backendRequest: 800ms}
    retry: {attempts: 2, backoff: 50ms, codes: [429, 503]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: shop}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  retryConstraint:
    budget: {percent: 15, interval: 20s}
    minRetryRate: {count: 3, interval: 1s}
";

#[test]
fn gateway_api_with_its_budget() {
    let (imported, policy) = imported(GATEWAY, Format::GatewayApi);
    let shop = policy.service("shop");
    assert_eq!(shop.target.call.retries, 2);
    assert_eq!(shop.target.call.attempt_timeout, Some(Duration::from_millis(800)));
    assert_eq!(shop.target.call.backoff.initial, Duration::from_millis(50));
    let Some(budget::Settings::Ratio { ratio, window, .. }) = shop.target.budget else {
        panic!("{:?}", shop.target.budget);
    };
    assert_eq!((ratio.as_f64(), window), (0.15, Duration::from_secs(20)));
    note(&imported, 8, "`backoff` is the least wait");
}

const GRPC: &str = r#"{
  "methodConfig": [
    {
      "name": [{"service": "shop.Orders"}, {"service": "shop.Carts", "method": "Get"}],
      "waitForReady": true,
      "timeout": "1.5s",
      "retryPolicy": {
        "maxAttempts": 9,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"]
      }
    },
    {"name": [{}], "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0.05s"}}
  ],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}
"#;

#[test]
fn a_grpc_service_config() {
    let (imported, policy) = imported(GRPC, Format::Grpc);
    for name in ["shop.Orders", "shop.Carts/Get"] {
        let service = policy.service(name);
        let call = &service.target.call;
        assert_eq!(call.retries, 4, "gRPC makes five attempts at most");
        assert_eq!(call.deadline, Some(Duration::from_millis(1500)));
        assert_eq!(call.backoff.initial, Duration::from_millis(100));
        assert!(matches!(call.backoff.jitter, Jitter::Factor { .. }));
        assert!(service.target.hedge.is_none());
    }
    assert!(policy.service("any").target.hedge.is_some());
    assert!(matches!(
        policy.service("shop.Orders").target.budget,
        Some(budget::Settings::Quota {
            capacity: 5000,
            retry_cost: 1000,
            success_gain: 100,
            ..
        })
    ));
    assert_eq!(
        imported.beside,
        Beside::Tokens {
            most: 10.0,
            gain: 0.1
        }
    );
    note(&imported, 5, "waitForReady");
    note(&imported, 8, "at most 5 attempts");
}

#[test]
fn aws_variables_and_profiles() {
    let (imported_file, policy) = imported("export AWS_RETRY_MODE=adaptive\n", Format::Aws);
    let any = policy.service("any");
    assert_eq!(any.target.call.retries, 2);
    assert_eq!(any.target.call.backoff.cap, Duration::from_secs(20));
    assert!(matches!(
        any.target.budget,
        Some(budget::Settings::Quota { capacity: 500, .. })
    ));
    assert_eq!(imported_file.beside, Beside::SendLimiter);
    note(&imported_file, 1, "send limiter");
    let config = "[default]\nregion = eu-west-1\nretry_mode = legacy\n\n[profile batch]\nretry_mode = standard\n\
                  max_attempts = 8\n\n[profile idle]\nregion = x\n";
    let (_, policy) = imported(config, Format::Aws);
    // The legacy mode makes five attempts, and `max_attempts` counts attempts.
    assert_eq!(policy.service("any").target.call.retries, 4);
    assert_eq!(policy.service("batch").target.call.retries, 7);
    assert_eq!(policy.services().count(), 1);
    assert!(policy.service("any").target.budget.is_none());
}

const SLOW_CALL: Duration = Duration::from_secs(3);

const RESILIENCE4J: &str = "spring: {application: {name: shop}}
resilience4j:
  retry:
    configs:
      default: {maxAttempts: 4, waitDuration: 200ms}
    instances:
      payments:
        enableExponentialBackoff: true
        exponentialBackoffMultiplier: 2
        exponentialMaxWaitDuration: 5s
        enableRandomizedWait: true
        retryExceptions: [java.io.IOException]
      search: {max-attempts: 2, wait-duration: PT0.1S}
  circuitbreaker:
    instances:
      payments: {slidingWindowType: TIME_BASED, slidingWindowSize: 30, minimumNumberOfCalls: 10, failureRateThreshold: 60,
        waitDurationInOpenState: 5000, slowCallDurationThreshold: 3s}
  timelimiter: {instances: {payments: {timeoutDuration: 2s}}}
  ratelimiter: {instances: {payments: {limitForPeriod: 5}}}
";

#[test]
fn resilience4j_instances_over_their_configs() {
    let (imported, policy) = imported(RESILIENCE4J, Format::Resilience4j);
    let payments = policy.service("payments");
    assert_eq!(payments.target.call.retries, 3);
    assert_eq!(payments.target.call.attempt_timeout, Some(Duration::from_secs(2)));
    assert_eq!(payments.target.call.backoff.cap, Duration::from_secs(5));
    let breaker = payments.target.breaker.unwrap();
    assert!(matches!(
        breaker.trip,
        Trip::Rate {
            minimum_calls: 10,
            slow: Some(Slow {
                above: SLOW_CALL,
                ratio: Ratio::ONE
            }),
            ..
        }
    ));
    assert_eq!(breaker.open_for, Duration::from_secs(5));
    let search = policy.service("search");
    assert_eq!(search.target.call.retries, 1);
    assert_eq!(search.target.call.backoff.initial, Duration::from_millis(100));
    assert_eq!(search.target.call.backoff.jitter, Jitter::None);
    note(&imported, 12, "Java classes");
    note(&imported, 19, "ratelimiter");
}

const POLLY: &str = r#"{
  "Logging": {"LogLevel": {"Default": "Information"}},
  "Resilience": {
    "Payments": {
      "Retry": {"MaxRetryAttempts": 5, "Delay": "00:00:00.2", "BackoffType": "Exponential", "UseJitter": true, "Name": "r"},
      "CircuitBreaker": {"FailureRatio": 0.5, "MinimumThroughput": 20, "SamplingDuration": "00:00:10", "BreakDuration": "00:00:05"},
      "AttemptTimeout": {"Timeout": "00:00:01"},
      "TotalRequestTimeout": {"Timeout": "00:00:08"},
      "RateLimiter": {"DefaultRateLimiterOptions": {"PermitLimit": 50, "QueueLimit": 0}}
    }
  }
}
"#;

#[test]
fn polly_options_of_a_settings_file() {
    let (imported, policy) = imported(POLLY, Format::Polly);
    let payments = policy.service("Payments");
    let call = &payments.target.call;
    assert_eq!(
        (call.retries, call.backoff.initial),
        (5, Duration::from_millis(200))
    );
    assert_eq!(call.backoff.jitter, Jitter::Decorrelated);
    assert_eq!(call.attempt_timeout, Some(Duration::from_secs(1)));
    assert_eq!(call.deadline, Some(Duration::from_secs(8)));
    assert!(matches!(
        payments.target.breaker.unwrap().trip,
        Trip::Rate {
            minimum_calls: 20,
            ..
        }
    ));
    assert!(payments.target.bulkhead.is_some());
    note(&imported, 5, "`Name`");
    note(&imported, 5, "decorrelated jitter");
}

#[test]
fn what_is_something_else_is_not_taken_for_one_of_them() {
    for text in [
        "",
        "defaults: {maxRetries: 1}",
        "services: {orders: {}}",
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
        "name: x\nduration: 1m\nclients: {}\n",
        "not: [yaml",
        "KEY=value\n",
    ] {
        assert_eq!(Format::detect(text), None, "{text}");
    }
    for format in Format::ALL {
        let refused = import("a: b\n", format).unwrap_err();
        assert!(
            refused.to_string().contains("nothing to import"),
            "{format}: {refused}"
        );
        assert_eq!(Format::from_word(format.as_str()), Some(format));
    }
}

#[test]
fn values_beyond_a_policys_range_are_brought_into_it_and_named() {
    let text = "virtual_hosts:\n- name: a\n  domains: ['*']\n  routes:\n  - match: {prefix: /}\n    route:\n      \
                cluster: a\n      timeout: 172800s\n      retry_policy: {retry_on: 5xx, num_retries: 500}\n";
    let (imported, policy) = imported(text, Format::Envoy);
    assert_eq!(policy.service("a").target.call.retries, 20);
    note(&imported, 9, "500 retries become 20");
    note(&imported, 8, "172800s becomes 86400s");
}

/// A config has a base too, and without one the config `default`. Only the first base was read, so that a fast config lost the
/// jitter and the growth of its default.
#[test]
fn bases_of_resilience4j_configs_are_followed() {
    let text = "resilience4j:
  retry:
    configs:
      default: {maxAttempts: 4, waitDuration: 200ms, enableExponentialBackoff: true, enableRandomizedWait: true}
      fast: {waitDuration: 10ms}
      faster: {baseConfig: fast, maxAttempts: 6}
      circle: {baseConfig: circle, maxAttempts: 2}
    instances:
      a: {baseConfig: faster, retryExceptions: [java.io.IOException]}
      b: {baseConfig: circle}
      c: {baseConfig: missing}
";
    let (imported, policy) = imported(text, Format::Resilience4j);
    let call = |name: &str| policy.service(name).target.call;
    assert_eq!(call("a").retries, 5);
    assert_eq!(call("a").backoff.initial, Duration::from_millis(10));
    assert!(matches!(call("a").backoff.jitter, Jitter::Factor { .. }));
    assert_eq!(call("b").retries, 1);
    note(&imported, 9, "`retryExceptions` names Java classes");
    note(&imported, 11, "there is no config `missing`");
}

/// Keys that a file takes over with `<<` were lost silently.
#[test]
fn keys_of_a_merged_anchor_count() {
    let text = "x-common: &common {maxAttempts: 5, waitDuration: 100ms}
resilience4j:
  retry:
    instances:
      a: {<<: *common, waitDuration: 200ms}
";
    let (_, policy) = imported(text, Format::Resilience4j);
    let call = policy.service("a").target.call;
    assert_eq!(
        (call.retries, call.backoff.initial),
        (4, Duration::from_millis(200))
    );
}

#[test]
fn a_destination_rule_lists_what_is_lost_in_its_own_spelling() {
    let text = "kind: DestinationRule
spec:
  host: store
  trafficPolicy:
    connectionPool:
      tcp: {maxConnections: 100}
      http: {http1MaxPendingRequests: 1, maxRetries: 5}
    outlierDetection: {consecutive5xxErrors: 7, maxEjectionPercent: 100, minHealthPercent: 50}
";
    let (imported, policy) = imported(text, Format::Istio);
    note(&imported, 6, "`maxConnections` bounds connections");
    note(&imported, 7, "`http1MaxPendingRequests` bounds connections");
    note(&imported, 7, "at most 5 retries at once (`maxRetries`)");
    // Half of the hosts stay, so that the target is never cut off.
    note(&imported, 8, "takes out at most 50 % of the hosts");
    assert!(policy.service("store").target.breaker.is_none());
}

/// The file was taken for a policy, whose reader stops at the second document.
#[test]
fn a_broken_file_is_reported_where_it_is_broken() {
    let text = "kind: VirtualService\nspec: {}\n---\nkind: [DestinationRule\nspec: 1\n";
    assert_eq!(Format::detect(text), None);
    let mistakes = lint_file("rules.yaml", text).0.unwrap_err();
    let [mistake] = mistakes.as_slice() else {
        panic!("{mistakes}");
    };
    assert!(mistake.at.line >= 4, "{mistake}");
    assert!(mistake.message.starts_with("neither YAML nor JSON"), "{mistake}");
    let nothing = "resilience4j: {retry: {configs: {default: {}}}, circuitbreaker: 1}\n";
    assert!(lint_file("application.yml", nothing).0.is_ok());
    let empty = "resilience4j: {}\n";
    let mistakes = lint_file("application.yml", empty).0.unwrap_err();
    assert!(
        mistakes.as_slice()[0].message.contains("nothing to import"),
        "{mistakes}"
    );
}
