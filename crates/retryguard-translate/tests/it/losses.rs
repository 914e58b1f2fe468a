//! What a file says and a policy does not is named, by line; what the other system refuses is not carried over in silence.

use std::time::Duration;

use retryguard_translate::{Format, import};

use crate::files::{imported, note};

/// The nested `retry_mode` replaced that of the profile. A profile of the legacy mode had the quota of a default profile.
#[test]
fn an_indented_key_of_a_config_file_belongs_to_the_key_above_it() {
    let text = "[default]
retry_mode = standard
max_attempts = 4
s3 =
    max_concurrent_requests = 20
    retry_mode = legacy
[profile batch]
retry_mode = legacy
";
    let (imported, policy) = imported(text, Format::Aws);
    let any = policy.service("any").target.clone();
    assert_eq!((any.call.retries, any.budget.is_some()), (3, true));
    assert!(policy.service("batch").target.budget.is_none());
    note(&imported, 6, "`retry_mode` is indented below another key");
}

/// A file with this key alone was reported as broken YAML.
#[test]
fn the_defaults_mode_of_the_sdks_sets_the_retry_mode() {
    let (by_default, policy) = imported("[default]\ndefaults_mode = in-region\n", Format::Aws);
    let any = policy.service("any").target.clone();
    assert_eq!((any.call.retries, any.budget.is_some()), (2, true));
    note(&by_default, 2, "its retry mode is standard");
    let (_, policy) = imported("AWS_DEFAULTS_MODE=standard\nAWS_RETRY_MODE=legacy\n", Format::Aws);
    assert_eq!(policy.service("any").target.call.retries, 4);
    let nothing = "[default]\nregion = eu-west-1\n";
    assert_eq!(Format::detect(nothing), Some(Format::Aws));
    let refused = import(nothing, Format::Aws).unwrap_err().to_string();
    assert!(refused.contains("nothing to import"), "{refused}");
}

#[test]
fn lines_that_break_a_config_file_are_named() {
    let text = "[default]\nretry_mode = standard\n[profile p\nmax attempts 3\n";
    let (imported, _) = imported(text, Format::Aws);
    note(&imported, 3, "neither a section nor an assignment");
    note(&imported, 4, "neither a section nor an assignment");
}

/// Only `key=value` was read: a colon, white space and names in brackets are as valid.
#[test]
fn assignments_of_properties_are_read_as_java_reads_them() {
    let text = "resilience4j.retry.instances.a.maxAttempts=6
resilience4j.retry.instances.a.waitDuration: 20ms
resilience4j.retry.instances[billing].max-attempts : 2
resilience4j.retry.instances[orders.eu].max-attempts 4
";
    let (_, policy) = imported(text, Format::Resilience4j);
    let call = |name: &str| policy.service(name).target.call;
    assert_eq!(call("a").retries, 5);
    assert_eq!(call("a").backoff.initial, Duration::from_millis(20));
    assert_eq!((call("billing").retries, call("orders.eu").retries), (1, 3));
}

#[test]
fn values_that_resilience4j_refuses_are_named() {
    let text = "resilience4j:
  circuitbreaker:
    instances:
      a: {failureRateThreshold: 150}
      b:
        slidingWindowType: COUNT
";
    let (imported, _) = imported(text, Format::Resilience4j);
    note(&imported, 4, "refuses a `failureRateThreshold` of 150");
    note(&imported, 6, "`slidingWindowType` is COUNT_BASED or TIME_BASED");
}

/// Both pipelines became one service, `Resilience`.
#[test]
fn a_pipeline_is_named_by_the_innermost_key_that_names_something() {
    let text = r#"{"Clients": {
  "Orders": {"Resilience": {"Retry": {"MaxRetryAttempts": 5, "BackoffType": "Quadratic"}}},
  "Cart": {"HttpStandardResilienceOptions": {"Retry": {"MaxRetryAttempts": 4}}}},
"Resilience": {"Retry": {"MaxRetryAttempts": 1}}}
"#;
    let (imported, policy) = imported(text, Format::Polly);
    let call = |name: &str| policy.service(name).target.call;
    assert_eq!((call("Orders").retries, call("Cart").retries), (5, 4));
    assert_eq!(call("Resilience").retries, 1);
    // The standard handler has its defaults, whatever the service is called.
    assert_eq!(call("Cart").deadline, Some(Duration::from_secs(30)));
    note(&imported, 2, "does not know the `BackoffType` Quadratic");
}

#[test]
fn settings_of_istio_that_a_policy_does_not_have_are_named() {
    let text = "kind: DestinationRule
spec:
  host: a
  trafficPolicy:
    loadBalancer: {simple: LEAST_REQUEST}
    connectionPool:
      tcp: {connectTimeout: 1s}
      http: {idleTimeout: 3s}
    outlierDetection:
      maxEjectionPercent: 100
      splitExternalLocalOriginErrors: true
    outlierDetections: {}
";
    let (imported, _) = imported(text, Format::Istio);
    note(&imported, 7, "`connectTimeout`");
    note(&imported, 8, "`idleTimeout`");
    note(&imported, 11, "`splitExternalLocalOriginErrors`");
    note(&imported, 12, "`outlierDetections`");
    assert!(!format!("{:?}", imported.notes).contains("loadBalancer"));
}

#[test]
fn settings_of_envoy_that_a_policy_does_not_have_are_named() {
    let text = "virtual_hosts:
- domains: ['*']
  routes:
  - route:
      cluster: a
      request_mirror_policies: [{cluster: b}]
      retry_policy:
        retry_on: retriable-status-codes
        retriable_status_codes: [503, 99]
        retry_back_off: {base_interval: 5s, max_interval: 1s}
layered_runtime:
  layers:
  - static_layer:
      upstream.use_retry: 50
      health_check.min_interval: 1
  - static_layer:
      circuit_breakers: {a: {default: {max_retries: 0}}}
";
    let (imported, policy) = imported(text, Format::Envoy);
    note(&imported, 6, "`request_mirror_policies`");
    note(&imported, 9, "99 is not a status");
    note(&imported, 10, "Envoy refuses a `max_interval` below");
    note(&imported, 14, "`upstream.use_retry`");
    note(&imported, 17, "`circuit_breakers.a.default.max_retries`");
    assert!(!format!("{:?}", imported.notes).contains("health_check"));
    assert_eq!(
        policy.service("a").target.call.backoff.initial,
        Duration::from_secs(5)
    );
}

#[test]
fn settings_of_a_gateway_that_a_policy_does_not_have_are_named() {
    let text = "kind: HTTPRoute
spec:
  rules:
  - retry:
      codes: [503, 700]
    timeouts:
      backendRequests: 1s
    filters:
    - requestMirror: {}
    backendRefs: [{name: a}]
";
    let (imported, _) = imported(text, Format::GatewayApi);
    note(&imported, 5, "`codes`: 700 is not a status");
    note(&imported, 7, "`backendRequests` of `timeouts`");
    note(&imported, 9, "`requestMirror`");
}

/// The import failed with a mistake in the generated policy, which the user had not written.
#[test]
fn a_service_config_that_grpc_refuses_is_read_without_what_it_refuses() {
    let text = r#"{"methodConfig": [{"name": [{"service": "a"}],
  "retryPolicy": {"maxAttempts": 1, "backoffMultiplier": 0, "retryableStatusCodes": ["BUSY"]},
  "hedgingPolicy": {"maxAttempts": 2}}],
 "retryThrottling": {"maxTokens": 0, "tokenRatio": -1}}
"#;
    let (refused, policy) = imported(text, Format::Grpc);
    for (line, words) in [
        (2, "`maxAttempts` is below 2"),
        (2, "`backoffMultiplier`"),
        (2, "`BUSY` is not a status code"),
        (3, "both `retryPolicy` and `hedgingPolicy`"),
        (4, "refuses this `retryThrottling`"),
    ] {
        note(&refused, line, words);
    }
    let target = policy.service("a").target.clone();
    assert_eq!((target.call.retries, target.hedge.is_some()), (0, false));
    let (_, policy) = imported(
        r#"{"retryThrottling": {"maxTokens": 1, "tokenRatio": 0.1}}"#,
        Format::Grpc,
    );
    assert!(policy.service("a").target.budget.is_some());
}
