//! One service of a policy as plain JSON, for clients in other languages that have a retry loop of their own.

use std::time::Duration;

use retryguard_policy::Policy;
use serde_json::{Value, json};

/// What a policy says about one service: defaults filled in, durations in milliseconds, `null` for "off". A service that
/// the policy does not list has its defaults.
pub(super) fn service(text: &str, name: &str) -> String {
    // Only policies that were read are served.
    let Ok(policy) = Policy::parse(text) else {
        return "null\n".to_owned();
    };
    let service = policy.service(name);
    let call = &service.target.call;
    let value = json!({
        "service": name,
        "maxRetries": call.retries,
        "initialDelayMs": millis(call.backoff.initial),
        "maxDelayMs": millis(call.backoff.cap),
        "attemptTimeoutMs": call.attempt_timeout.map(millis),
        "deadlineMs": call.deadline.map(millis),
    });
    format!("{value}\n")
}

fn millis(span: Duration) -> Value {
    json!(span.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_filled_in_and_a_decision_is_seen() {
        let text = "defaults: {deadline: 3s}\nservices:\n  payments: {maxRetries: 0, initialDelay: 250ms, attemptTimeout: 900ms}\n";
        let payments: Value = serde_json::from_str(&service(text, "payments")).unwrap();
        assert_eq!(payments["maxRetries"], 0);
        assert_eq!(payments["initialDelayMs"], 250.0);
        assert_eq!(payments["attemptTimeoutMs"], 900.0);
        assert_eq!(payments["deadlineMs"], 3000.0);
        let other: Value = serde_json::from_str(&service(text, "other")).unwrap();
        assert!(other["maxRetries"].as_u64().unwrap() > 0, "{other}");
        assert_eq!(other["attemptTimeoutMs"], Value::Null);
    }
}
