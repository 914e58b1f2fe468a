//! The same settings in the spellings, wrappings and versions that are met in the field.

use std::time::Duration;

use retryguard_core::{backoff::Jitter, breaker::Trip};
use retryguard_translate::{Format, import};

use crate::files::{imported, note};

const OBJECTS: &str = "apiVersion: v1
items:
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: cart}
  spec:
    hosts: [cart]
    http:
    - route: [{destination: {host: cart}}]
      timeout: 800ms
      retries: {attempts: 4, perTryTimeout: 250ms, retryOn: 5xx}
kind: List
metadata: {resourceVersion: ''}
";

/// `kubectl get virtualservices -o yaml` prints a list, whose items were not looked at.
#[test]
fn a_list_of_kubernetes_objects_is_its_items() {
    for text in [
        OBJECTS.to_owned(),
        OBJECTS.replace("kind: List", "kind: VirtualServiceList"),
        OBJECTS.replace('\n', "\r\n"),
        format!("\u{feff}{OBJECTS}"),
    ] {
        let (imported, policy) = imported(&text, Format::Istio);
        assert_eq!(policy.service("cart").target.call.retries, 4, "{text:?}");
        assert_eq!(imported.notes, []);
    }
    let route = "kind: List\nitems:\n- kind: HTTPRoute\n  spec: {rules: [{backendRefs: [{name: a}], retry: {attempts: 3, codes: [503]}}]}\n";
    let (_, policy) = imported(route, Format::GatewayApi);
    assert_eq!(policy.service("a").target.call.retries, 3);
}

/// They became a service of the virtual service's name with Istio's own two retries.
#[test]
fn a_route_that_the_proxy_answers_has_no_retries() {
    let text = "kind: VirtualService
spec:
  hosts: [www.example.com]
  http:
  - match: [{uri: {exact: /old}}]
    redirect: {uri: /new}
  - match: [{uri: {exact: /robots.txt}}]
    directResponse: {status: 200}
  - delegate: {name: api}
  - route: [{destination: {host: web}}]
    retries: {attempts: 3, retryOn: '503'}
";
    let (imported, policy) = imported(text, Format::Istio);
    assert_eq!(policy.services().count(), 1, "{}", imported.policy);
    assert_eq!(policy.service("web").target.call.retries, 3);
    note(&imported, 9, "another VirtualService");
}

/// Zero switches a count off. It was read as a breaker that opens at the first failure.
#[test]
fn an_outlier_detection_that_is_switched_off_is_no_breaker() {
    let rule = |detection: &str| {
        format!(
            "kind: DestinationRule\nspec:\n  host: a\n  trafficPolicy:\n    outlierDetection: {{{detection}, maxEjectionPercent: 100}}\n"
        )
    };
    let trip = |detection: &str| {
        let (imported, policy) = imported(&rule(detection), Format::Istio);
        (policy.service("a").target.breaker.map(|it| it.trip), imported)
    };
    assert!(matches!(
        trip("consecutive5xxErrors: 0, consecutiveGatewayErrors: 6").0,
        Some(Trip::Consecutive(6))
    ));
    assert!(matches!(
        trip("consecutiveGatewayErrors: 7").0,
        Some(Trip::Consecutive(5))
    ));
    let (none, off) = trip("consecutive5xxErrors: 0");
    assert_eq!(none, None);
    note(&off, 5, "does not count failures in a row");

    let cluster = |detection: &str| {
        let text = format!(
            "clusters:\n- name: a\n  outlier_detection: {{{detection}, max_ejection_percent: 100}}\n"
        );
        let (_, policy) = imported(&text, Format::Envoy);
        policy.service("a").target.breaker.map(|it| it.trip)
    };
    assert_eq!(cluster("consecutive_5xx: 3, enforcing_consecutive_5xx: 0"), None);
    assert!(matches!(cluster("interval: 1s"), Some(Trip::Consecutive(5))));
    assert!(matches!(
        cluster("consecutive_gateway_failure: 2, enforcing_consecutive_gateway_failure: 100"),
        Some(Trip::Consecutive(2))
    ));
}

#[test]
fn a_rule_for_a_whole_domain_says_that_it_is_one() {
    let text = "kind: DestinationRule\nspec:\n  host: '*.local'\n  trafficPolicy: {connectionPool: {http: {http2MaxRequests: 9}}}\n";
    let (imported, _) = imported(text, Format::Istio);
    note(&imported, 3, "every host that ends in `.local`");
}

const SPRING: &str = "spring: {application: {name: shop}}
---
resilience4j.retry:
  configs:
    default: &default {maxRetryAttempts: 5, waitDuration: 100ms}
  instances:
    a: {baseConfig: default}
    b:
      <<: *default
      max-attempts: ${RETRIES:4}
      intervalBiFunction: com.example.Wait
    '[orders.eu]': {maxAttempts: 2}
resilience4j.circuitbreaker.instances.a:
  failureRateThreshold: ${RATE:60}
  slidingWindowSize: many
  registerHealthIndicator: true
---
spring.config.activate.on-profile: prod
resilience4j.retry.instances.a.waitDuration: 300ms
";

/// Keys with dots and later documents were lost; so were, without a note, old names, unknown keys and numbers that are none.
#[test]
fn the_ways_of_spring_are_followed() {
    let (imported, policy) = imported(SPRING, Format::Resilience4j);
    let call = |name: &str| policy.service(name).target.call;
    // The profile's document changes one key of the instance.
    assert_eq!(
        (call("a").retries, call("a").backoff.initial),
        (4, Duration::from_millis(300))
    );
    assert_eq!(
        (call("b").retries, call("b").backoff.initial),
        (3, Duration::from_millis(100))
    );
    assert_eq!(call("orders.eu").retries, 1);
    let breaker = policy.service("a").target.breaker.unwrap();
    assert!(matches!(breaker.trip, Trip::Rate { ratio, .. } if ratio.as_f64() == 0.6));
    note(&imported, 5, "`maxRetryAttempts` is the key of resilience4j 1");
    note(&imported, 10, "`${RETRIES:4}` is read as its default, `4`");
    note(&imported, 11, "`intervalBiFunction`");
    note(&imported, 14, "`${RATE:60}`");
    note(&imported, 15, "`slidingWindowSize` is not a number");
    note(&imported, 18, "the profile `prod`");
    assert!(!format!("{:?}", imported.notes).contains("registerHealthIndicator"));
}

#[test]
fn a_properties_file_of_spring_is_read() {
    let text = "# the shop\nspring.application.name=shop\nresilience4j.retry.instances.payments.max-attempts=4\r\n\
                resilience4j.retry.instances.payments.wait-duration = 200ms\n\
                resilience4j.retry.instances.payments.retry-exceptions[0]=java.io.IOException\n\
                #---\nspring.config.activate.on-profile=prod\nresilience4j.retry.instances.payments.max-attempts=6\n";
    let (imported, policy) = imported(text, Format::Resilience4j);
    let call = policy.service("payments").target.call;
    assert_eq!(
        (call.retries, call.backoff.initial),
        (5, Duration::from_millis(200))
    );
    note(&imported, 5, "names Java classes");
    note(&imported, 7, "the profile `prod`");
    // Neither a policy nor an environment is one.
    assert_eq!(Format::detect("services: {resilience4j.a: {}}\n"), None);
    assert_eq!(
        Format::detect("A=resilience4j.b\nAWS_MAX_ATTEMPTS=3\n"),
        Some(Format::Aws)
    );
}

const SETTINGS: &str = r#"{
  // .NET allows comments here
  "Resilience": {
    "Catalog": { "Retry": { "MaxRetryAttempts": "4", "Delay": "00:00:01", "BackoffType": "exponential", "UseJitter": "False" } },
    /* five seconds? no:
       five days */
    "Basket": { "AttemptTimeout": { "Timeout": "5" }, "Url": "http://basket//x" },
    "Payments": { "TotalRequestTimeout": { "Timeout": "00:00:05" } }
  }
}
"#;

/// The words of an enumeration count in any case. `exponential` was read as a constant delay, and a standard handler that sets one
/// part was read as if it had no other.
#[test]
fn settings_of_dotnet_are_read_as_dotnet_reads_them() {
    let (imported, policy) = imported(SETTINGS, Format::Polly);
    let call = |name: &str| policy.service(name).target.call;
    assert_eq!(call("Catalog").retries, 4);
    assert_eq!(call("Catalog").backoff.jitter, Jitter::None);
    assert!(call("Catalog").backoff.cap > Duration::from_secs(60), "it grows");
    // `TimeSpan.Parse("5")` are five days, and a policy's longest time is one.
    assert_eq!(call("Basket").attempt_timeout, Some(Duration::from_secs(86_400)));
    note(&imported, 7, "432000s becomes 86400s");
    let payments = call("Payments");
    assert_eq!(
        (payments.retries, payments.deadline, payments.attempt_timeout),
        (3, Some(Duration::from_secs(5)), Some(Duration::from_secs(10)))
    );
    assert!(policy.service("Payments").target.breaker.is_some());
    note(
        &imported,
        8,
        "defaults are taken for `Retry`, `CircuitBreaker`, `AttemptTimeout`",
    );
    let broken = import("{ // nothing\n \"a\": [}\n", Format::Polly).unwrap_err();
    assert!(broken.to_string().contains("neither YAML nor JSON"), "{broken}");
}

#[test]
fn variables_with_a_byte_order_mark_and_windows_lines_are_read() {
    let text = "\u{feff}AWS_RETRY_MODE=standard\r\nAWS_MAX_ATTEMPTS=6\r\n";
    let (_, policy) = imported(text, Format::Aws);
    assert_eq!(policy.service("any").target.call.retries, 5);
}

#[test]
fn what_envoy_bounds_elsewhere_is_named() {
    let text = "virtual_hosts:
- domains: ['*']
  routes:
  - route:
      cluster: a
      max_stream_duration: {max_stream_duration: 5s}
      idle_timeout: 3s
clusters:
- name: a
  circuit_breakers: {per_host_thresholds: [{max_connections: 3}]}
";
    let (imported, _) = imported(text, Format::Envoy);
    note(&imported, 6, "`max_stream_duration`");
    note(&imported, 7, "`idle_timeout`");
    note(&imported, 10, "thresholds of single hosts");
}

/// The whole file was read, so that `simulate --policy /dev/zero` took all memory.
#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    let endless = retryguard_translate::PolicyFile::read(std::path::Path::new("/dev/zero"));
    let file = endless.expect("zeros are text");
    let refused = file.policy("/dev/zero").unwrap_err().to_string();
    assert!(refused.contains("bytes"), "{refused}");
}
