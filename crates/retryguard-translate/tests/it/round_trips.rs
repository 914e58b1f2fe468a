//! A policy that another system can express survives the way there and back, without a loss.

use proptest::prelude::*;
use retryguard_core::outcome::{Hints, Outcome};
use retryguard_policy::{NetworkError, Policy};
use retryguard_translate::{Format, Target, import, render};

/// What imported policies have beside what is drawn.
const FOREIGN: &str = "retryRetried: true, budget: off, guard: off, breaker: off, bulkhead: off, gate: {scope: call, \
                       atMost: 0}, server: off, multiplier: 2, jitter: full";

/// What Envoy's words mean as a policy's lists.
const LISTS: [&str; 4] = [
    // connect-failure
    "neverRetryOn: [overload, fault, timeout, disconnected]",
    // reset,connect-failure
    "neverRetryOn: [overload, fault, 408, 504, DEADLINE_EXCEEDED, 502]",
    // 5xx
    "retryOn: [5xx], neverRetryOn: [429, RESOURCE_EXHAUSTED, UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS, ABORTED, 408, \
     DEADLINE_EXCEEDED]",
    // gateway-error and 409, 429
    "retryOn: [409], neverRetryOn: [RESOURCE_EXHAUSTED, UNAVAILABLE, fault, 408, DEADLINE_EXCEEDED]",
];

#[derive(Debug, Clone)]
struct Drawn {
    retries: u32,
    base_ms: u64,
    cap: u64,
    timeout_ms: Option<u64>,
    deadline_ms: Option<u64>,
    lists: usize,
    percent: Option<u32>,
    limit: Option<u32>,
    breaker: Option<(u32, u32)>,
    retry_after: Option<u32>,
    methods: bool,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let numbers = (1u32..=5, 1u64..=1000, 1u64..=20, 0..LISTS.len());
    let times = (
        proptest::option::of(1u64..=60_000),
        proptest::option::of(1u64..=60_000),
    );
    let parts = (
        proptest::option::of(1u32..=100),
        proptest::option::of(1u32..=1000),
        proptest::option::of((1u32..=20, 1u32..=60)),
        proptest::option::of(1u32..=600),
        any::<bool>(),
    );
    (numbers, times, parts).prop_map(|(numbers, times, parts)| Drawn {
        retries: numbers.0,
        base_ms: numbers.1,
        cap: numbers.2,
        lists: numbers.3,
        timeout_ms: times.0,
        deadline_ms: times.1,
        percent: parts.0,
        limit: parts.1,
        breaker: parts.2,
        retry_after: parts.3,
        methods: parts.4,
    })
}

impl Drawn {
    fn policy(&self, factor: u64) -> String {
        let mut keys = vec![
            format!("maxRetries: {}", self.retries),
            format!("initialDelay: {}ms", self.base_ms),
            format!("maxDelay: {}ms", self.base_ms * factor),
            LISTS[self.lists].to_owned(),
        ];
        let mut time = |key: &str, value: Option<u64>| {
            keys.push(value.map_or_else(|| format!("{key}: off"), |value| format!("{key}: {value}ms")));
        };
        time("attemptTimeout", self.timeout_ms);
        time("deadline", self.deadline_ms);
        keys.extend(
            self.percent
                .map(|percent| format!("budget: {{percent: {percent}%}}")),
        );
        keys.extend(self.limit.map(|limit| format!("bulkhead: {{limit: {limit}}}")));
        keys.extend(self.breaker.map(|(failures, open)| {
            format!("breaker: {{trip: consecutive, failures: {failures}, openFor: {open}s, openForAtMost: {open}s}}")
        }));
        keys.extend(
            self.retry_after
                .map(|after| format!("gate: {{scope: call, atMost: {after}s}}")),
        );
        if self.methods {
            keys.push("idempotency: {methods: [GET, HEAD, PUT]}".to_owned());
        } else {
            keys.push("retryNonIdempotent: true".to_owned());
        }
        format!(
            "defaults: {{{FOREIGN}}}\nservices:\n  'shop:1':\n    {}\n  idle: {{maxRetries: 0, deadline: 5s, initialDelay: \
             100ms, maxDelay: 10s, retryNonIdempotent: true}}\n",
            keys.join("\n    ")
                .replace(", neverRetryOn", "\n    neverRetryOn")
        )
    }
}

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
