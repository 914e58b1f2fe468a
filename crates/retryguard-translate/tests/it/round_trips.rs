//! A policy that another system can express survives the way there and back, without a loss.

use proptest::prelude::*;
use retryguard_core::outcome::{Hints, Outcome};
use retryguard_policy::{NetworkError, Policy};
use retryguard_translate::{Format, Target, import, render};

use crate::drawn::{Drawn, drawn};

fn parsed(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// What a policy means for a service that is retried.
fn meaning(policy: &Policy, name: &str) -> String {
    let service = policy.service(name);
    let retried = |outcome: Outcome| matches!(outcome, Outcome::Failure(failure) if failure.retryable);
    let classifier = &service.classifier;
    let statuses: Vec<u16> = (400..600)
        .filter(|it| retried(classifier.http(*it, Hints::NONE)))
        .collect();
    let codes: Vec<u8> = (1..17)
        .filter(|it| retried(classifier.grpc(*it, Hints::NONE)))
        .collect();
    let network = [NetworkError::Connect, NetworkError::Reset, NetworkError::Timeout]
        .map(|error| retried(classifier.network(error)));
    format!(
        "{:?}\n{statuses:?}\n{codes:?}\n{network:?}\n{:?}",
        service.target, service.idempotency
    )
}

fn there_and_back(policy: &Policy, target: Target, format: Format) -> (Policy, Vec<String>) {
    let rendered = render(policy, target);
    let back = import(&rendered.text, format).unwrap_or_else(|error| panic!("{}\n{error}", rendered.text));
    let losses = rendered.losses.iter().map(ToString::to_string).collect();
    (parsed(&back.policy), losses)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn envoy(drawn in drawn()) {
        let policy = parsed(&drawn.policy(drawn.cap));
        let (back, losses) = there_and_back(&policy, Target::Envoy, Format::Envoy);
        prop_assert_eq!(meaning(&policy, "shop:1"), meaning(&back, "shop:1"), "{}", drawn.policy(drawn.cap));
        prop_assert_eq!(back.service("idle").target.call.retries, 0);
        prop_assert_eq!(back.service("idle").target.call.deadline, policy.service("idle").target.call.deadline);
        // Single hosts are not the target as a whole: that is said, and is all that is said.
        prop_assert_eq!(losses.len(), usize::from(drawn.breaker.is_some()), "{:?}", losses);
    }

    #[test]
    fn istio(drawn in drawn()) {
        let drawn = Drawn { retry_after: None, ..drawn };
        let policy = parsed(&drawn.policy(10));
        let (back, losses) = there_and_back(&policy, Target::Istio, Format::Istio);
        prop_assert_eq!(meaning(&policy, "shop:1"), meaning(&back, "shop:1"));
        prop_assert_eq!(back.service("idle").target.call.retries, 0);
        prop_assert_eq!(losses.len(), usize::from(drawn.breaker.is_some()), "{:?}", losses);
    }

    /// The Gateway API reads statuses and every failure of the network, and knows neither breaker nor bulkhead.
    #[test]
    fn gateway_api(drawn in drawn()) {
        let timeout = drawn.timeout_ms.map(|timeout| timeout.min(drawn.deadline_ms.unwrap_or(timeout)));
        let drawn = Drawn { retry_after: None, breaker: None, limit: None, lists: 3, timeout_ms: timeout, ..drawn };
        let text = drawn.policy(10).replace("shop:1", "shop");
        let policy = parsed(&text);
        let (back, losses) = there_and_back(&policy, Target::GatewayApi, Format::GatewayApi);
        prop_assert_eq!(meaning(&policy, "shop"), meaning(&back, "shop"), "{}", text);
        prop_assert_eq!(losses, Vec::<String>::new());
    }

    /// gRPC knows codes, a jitter of a fifth and a quota.
    #[test]
    fn grpc(retries in 1u32..=4, base in 1u64..=1000, growth in 1u32..=4, deadline in proptest::option::of(1u64..=60_000),
            tokens in 1u32..=500, gain in 1u32..=1000) {
        let deadline = deadline.map_or_else(|| "off".to_owned(), |deadline| format!("{deadline}ms"));
        let text = format!(
            "defaults: {{maxRetries: 0, deadline: off, retryRetried: true, retryNonIdempotent: true, guard: off, breaker: off, \
             bulkhead: off, gate: {{scope: call, atMost: 0}}, server: off, budget: {{form: quota, capacity: {tokens}000, \
             retryCost: 1000, timeoutCost: 1000, successGain: {gain}}}}}\nservices:\n  shop.Orders:\n    maxRetries: {retries}\n    \
             initialDelay: {base}ms\n    maxDelay: {}ms\n    multiplier: {growth}\n    jitterFactor: 0.2\n    deadline: {deadline}\n    \
             neverRetryOn: [RESOURCE_EXHAUSTED, fault, 408, timeout]\n",
            base * 7
        );
        // UNAVAILABLE stands for the statuses that gRPC reads as it, a gateway's timeout among them.
        let policy = parsed(&text.replace("408, timeout", "408, DEADLINE_EXCEEDED"));
        let (back, losses) = there_and_back(&policy, Target::Grpc, Format::Grpc);
        prop_assert_eq!(losses, Vec::<String>::new());
        let (one, two) = (policy.service("shop.Orders"), back.service("shop.Orders"));
        prop_assert_eq!(format!("{:?}", one.target.call.backoff), format!("{:?}", two.target.call.backoff));
        prop_assert_eq!(one.target.call.retries, two.target.call.retries);
        prop_assert_eq!(one.target.call.deadline, two.target.call.deadline);
        prop_assert_eq!(one.target.budget, two.target.budget);
    }

    /// Whatever a policy says, what is rendered can be read, and rendering what was read changes nothing more.
    #[test]
    fn rendering_settles(drawn in drawn(), target in 0usize..4, guard in any::<bool>()) {
        let mut text = drawn.policy(drawn.cap);
        if guard {
            text = text.replace("guard: off", "guard: on").replace("retryRetried: true, ", "");
        }
        let policy = parsed(&text);
        let target = Target::ALL[target];
        let format = Format::from_word(target.as_str()).unwrap();
        let (once, _) = there_and_back(&policy, target, format);
        let (twice, _) = there_and_back(&once, target, format);
        let name = if target == Target::GatewayApi { "shop-1" } else { "shop:1" };
        let listed: Vec<&str> = once.services().map(|(name, _)| name).collect();
        let name = listed.iter().copied().find(|listed| listed.starts_with("shop")).unwrap_or(name);
        let again = twice.services().map(|(name, _)| name).find(|listed| listed.starts_with("shop")).unwrap_or(name);
        prop_assert_eq!(meaning(&once, name), meaning(&twice, again), "{}", render(&policy, target).text);
    }
}
