//! Ten known storms, each a link.

use serde_json::{Value, json};

/// Name, what it shows, sliders, policies.
type Storm = (&'static str, &'static str, &'static str, &'static [&'static str]);

const STORMS: [Storm; 10] = [
    (
        "capacity-loss",
        "A service loses most of its workers for 15 seconds. Does it come back?",
        r#"{"load":70,"lost":85}"#,
        &["none", "immediate", "aws-standard", "retryguard"],
    ),
    (
        "outage",
        "Nothing answers for 15 seconds; then everything comes at once.",
        r#"{"load":80,"lost":100}"#,
        &["none", "fixed", "aws-legacy", "retryguard"],
    ),
    (
        "slow",
        "Work takes six times as long: timeouts fire while the work goes on.",
        r#"{"load":80,"lost":0,"slow":6,"deadline":1000}"#,
        &["none", "immediate", "envoy", "retryguard"],
    ),
    (
        "random-errors",
        "A fifth fails at random and there is room: here retries help.",
        r#"{"load":60,"lost":0,"errors":20}"#,
        &["none", "immediate", "finagle", "retryguard"],
    ),
    (
        "errors-that-look-like-load",
        "The same fifth comes as 503, which looks like overload and is not.",
        r#"{"load":60,"lost":0,"errors":20,"errorKind":"overload"}"#,
        &["none", "immediate", "envoy-budget", "retryguard"],
    ),
    (
        "overload",
        "One and a half times as many calls as the service can do, without end.",
        r#"{"load":150,"lost":0}"#,
        &["none", "immediate", "aws-legacy", "retryguard"],
    ),
    (
        "no-queue",
        "No place to wait: bursts are rejected at once, and retries smooth them.",
        r#"{"load":80,"lost":0,"queue":0}"#,
        &["none", "immediate", "grpc", "retryguard"],
    ),
    (
        "long-queue",
        "A queue that is longer than callers wait: work is done for callers that have gone.",
        r#"{"load":90,"lost":60,"queue":1000,"deadline":1500}"#,
        &["none", "immediate", "istio", "retryguard"],
    ),
    (
        "many-clients",
        "A thousand small clients: none of them makes enough calls to decide.",
        r#"{"load":80,"lost":80,"clients":1000}"#,
        &["none", "immediate", "aws-standard", "retryguard"],
    ),
    (
        "one-client",
        "One busy client makes all calls.",
        r#"{"load":80,"lost":80,"clients":1}"#,
        &["none", "immediate", "envoy-budget", "retryguard"],
    ),
];

/// The gallery as the page reads it.
#[must_use]
pub fn storms() -> Value {
    let storm = |(name, about, world, policies): &Storm| {
        let world: Value = serde_json::from_str(world).unwrap_or_default();
        let policies: Vec<Value> = policies.iter().map(|name| json!({"use": name})).collect();
        json!({"name": name, "about": about, "state": {"world": world, "policies": policies, "seed": 1}})
    };
    STORMS.iter().map(storm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every storm runs, and where a storm is known to end badly without a bound, it does.
    #[test]
    fn every_storm_is_simulated() {
        let all = storms();
        assert_eq!(all.as_array().map(Vec::len), Some(10));
        for storm in all.as_array().into_iter().flatten() {
            let answer = crate::answer(&storm["state"]).unwrap_or_else(|error| panic!("{storm}: {error}"));
            let columns = answer["policies"].as_array().expect("columns");
            assert_eq!(columns.len(), 4, "{storm}");
            for column in columns {
                let success = column["success"].as_f64().expect("a share");
                assert!((0.0..=1.0).contains(&success), "{column}");
                assert_eq!(
                    column["lines"]["good"].as_array().map(Vec::is_empty),
                    Some(false),
                    "{column}"
                );
            }
            assert!(
                answer["verdict"]
                    .as_str()
                    .is_some_and(|verdict| verdict.ends_with('.')),
                "{answer}"
            );
        }
    }
}
