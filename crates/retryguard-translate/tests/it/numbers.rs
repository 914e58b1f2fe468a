//! Numbers that are wrong, and numbers that are left out.

use retryguard_translate::Format;

use crate::files::{imported, note};

#[test]
fn a_number_of_attempts_that_is_not_a_number_is_noted() {
    let text = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  hosts: [a]\n  http:\n  - \
                retries: {attempts: many}\n    route: [{destination: {host: a}}]\n";
    let (imported, _) = imported(text, Format::Istio);
    note(&imported, 7, "`attempts` is not a whole number");
    let notes = format!("{:?}", imported.notes);
    assert!(!notes.contains("without `attempts`"), "{notes}");
}

/// `HttpStandardResilienceOptions` draw their delays by default, unlike a strategy of Polly's own.
#[test]
fn the_standard_handler_for_http_has_jitter_by_default() {
    let standard = r#"{"HttpStandardResilienceOptions": {"Retry": {"MaxRetryAttempts": 2}, "TotalRequestTimeout": {"Timeout": "00:00:30"}}}"#;
    let (handler, _) = imported(standard, Format::Polly);
    assert!(
        handler.policy.contains("jitter: decorrelated"),
        "{}",
        handler.policy
    );
    let plain = r#"{"catalog": {"Retry": {"MaxRetryAttempts": 2}, "Timeout": {"Timeout": "00:00:02"}}}"#;
    let (strategy, _) = imported(plain, Format::Polly);
    assert!(strategy.policy.contains("jitter: none"), "{}", strategy.policy);
    note(&strategy, 1, "by its place in the pipeline");
}
