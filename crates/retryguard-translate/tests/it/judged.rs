//! Findings about files of other systems speak of those files.

use retryguard_policy::{Finding, Report, Severity};
use retryguard_translate::{Format, import};

fn judged(text: &str, format: Format) -> Report {
    let imported = import(text, format).expect("a file of this format");
    imported.judged(text).expect("a policy without mistakes")
}

fn find<'r>(report: &'r Report, code: &str) -> &'r Finding {
    report
        .findings
        .iter()
        .find(|finding| finding.code == code)
        .unwrap_or_else(|| panic!("no {code} in {:#?}", report.findings))
}

#[track_caller]
fn says(report: &Report, code: &str, line: u32, cure: &str) {
    let finding = find(report, code);
    assert_eq!(finding.line, line, "{finding:#?}");
    assert!(finding.cure.contains(cure), "{cure:?} is not in {finding:#?}");
}

const ISTIO: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: shop-routes
spec:
  hosts: [reviews]
  http:
  - route:
    - destination: {host: reviews}
    timeout: 2s
    retries:
      attempts: 9
      perTryTimeout: 2s
      retryOn: 5xx,retriable-4xx
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: reviews-rule
spec:
  host: reviews
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 5, maxEjectionPercent: 100}
";

/// A file of each system, with much to find in it.
pub(crate) const FILES: [(Format, &str); 7] = [
    (Format::Istio, ISTIO),
    (
        Format::Envoy,
        "virtual_hosts:\n- name: a\n  domains: ['*']\n  routes:\n  - match: {prefix: /}\n    route:\n      cluster: web\n      \
             timeout: 1s\n      retry_policy:\n        retry_on: 5xx,retriable-4xx\n        num_retries: 7\n        per_try_timeout: 1s\n",
    ),
    (
        Format::GatewayApi,
        "kind: HTTPRoute\nmetadata: {name: r}\nspec:\n  rules:\n  - backendRefs: [{name: web}]\n    timeouts: {request: 1s, \
             backendRequest: 900ms}\n    retry: {attempts: 8, codes: [404, 503]}\n",
    ),
    (
        Format::Grpc,
        "{\"methodConfig\": [{\"name\": [{\"service\": \"web\"}], \"retryPolicy\": {\"maxAttempts\": 5, \
             \"initialBackoff\": \"100s\", \"maxBackoff\": \"200s\", \"backoffMultiplier\": 2, \"retryableStatusCodes\": \
             [\"UNAVAILABLE\", \"NOT_FOUND\"]}}, {\"name\": [{\"service\": \"hedged\"}], \"hedgingPolicy\": \
             {\"maxAttempts\": 3, \"hedgingDelay\": \"1s\"}}]}",
    ),
    (Format::Aws, "[default]\nretry_mode = legacy\nmax_attempts = 9\n"),
    (
        Format::Resilience4j,
        "resilience4j:\n  retry:\n    instances:\n      web: {maxAttempts: 7, waitDuration: 5m}\n  circuitbreaker:\n    \
             instances:\n      web: {minimumNumberOfCalls: 3}\n",
    ),
    (
        Format::Polly,
        "{\"web\": {\"Retry\": {\"MaxRetryAttempts\": 9, \"Delay\": \"00:02:00\"}, \"CircuitBreaker\": \
             {\"MinimumThroughput\": 2}, \"AttemptTimeout\": {\"Timeout\": \"00:00:05\"}, \"TotalRequestTimeout\": {\"Timeout\": \
             \"00:00:05\"}}}",
    ),
];

#[test]
fn istio_is_told_its_own_keys_objects_and_lines() {
    let report = judged(ISTIO, Format::Istio);
    says(
        &report,
        "RG001",
        12,
        "set `retries.attempts` to 2 or less (VirtualService `shop-routes`, line 8)",
    );
    says(
        &report,
        "RG010",
        13,
        "set `retries.perTryTimeout` to 640ms or less",
    );
    says(&report, "RG012", 23, "`outlierDetection.consecutive5xxErrors`");
    says(&report, "RG015", 12, "into the DestinationRule of `reviews`");
    says(
        &report,
        "RG016",
        12,
        "`retryguard controller` sets `retries.attempts` to 0",
    );
    assert!(
        find(&report, "RG010")
            .message
            .starts_with("`reviews`: `retries.perTryTimeout` of 2s")
    );
    assert!(find(&report, "RG023").message.contains("is not obeyed"));
}

/// What is not in the file cannot be changed there.
#[test]
fn no_finding_is_about_what_the_file_does_not_write() {
    let report = judged(ISTIO, Format::Istio);
    for finding in &report.findings {
        assert!(!finding.message.contains("`defaults`"), "{finding:#?}");
        assert_ne!(finding.code, "RG018", "the cap is Istio's own");
    }
}

/// Every cure names keys of the file's system; none a key that only a policy has.
#[test]
fn no_cure_is_in_the_words_of_a_policy() {
    for (format, text) in FILES {
        let report = judged(text, format);
        assert!(report.findings.len() > 3, "{format}: {:#?}", report.findings);
        for finding in &report.findings {
            for key in [
                "`attemptTimeout`",
                "`deadline`",
                "`maxDelay`",
                "`guard: off`",
                "`budget: off`",
                "`retryRetried`",
                "`retryOn`",
            ] {
                let words = format!("{} {}", finding.message, finding.cure);
                assert!(!words.contains(key), "{format}: {finding:#?}");
            }
        }
    }
}

#[test]
fn lines_of_the_other_systems() {
    let aws = judged(
        "[default]\nregion = a\nretry_mode = legacy\nmax_attempts = 9\n",
        Format::Aws,
    );
    says(
        &aws,
        "RG001",
        4,
        "set `max_attempts` (`AWS_MAX_ATTEMPTS`) to 3 or less",
    );
    says(&aws, "RG015", 3, "`retry_mode = standard`");
    let spring = "resilience4j:\n  retry:\n    instances:\n      web:\n        maxAttempts: 7\n        waitDuration: 100ms\n";
    let spring = judged(spring, Format::Resilience4j);
    says(
        &spring,
        "RG001",
        5,
        "set `maxAttempts` of the retry to 3 or less (instance `web`, line 5)",
    );
    assert_eq!(find(&spring, "RG005").severity, Severity::Error);
}

/// A team that has a reason writes it where it writes its retries.
#[test]
fn comments_of_the_file_allow_findings() {
    let text = ISTIO.replace(
        "      attempts: 9\n",
        "      attempts: 9 # retryguard: allow RG001, RG016: a nightly job alone\n",
    );
    let report = judged(&text, Format::Istio);
    let allowed: Vec<_> = report
        .allowed
        .iter()
        .map(|allowed| allowed.finding.code)
        .collect();
    assert_eq!(allowed, ["RG001", "RG016"]);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !["RG001", "RG016"].contains(&finding.code))
    );
    let text = ISTIO.replace("attempts: 9", "attempts: 9 # retryguard: allow RG001");
    says(&judged(&text, Format::Istio), "RG024", 12, "the reason");
}
