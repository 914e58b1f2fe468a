//! A service's own keys, and the file as a whole.

use std::time::Duration;

use retryguard_core::{Criticality, Ratio};
use serde_json::json;

use super::{
    At, Breaker, Budget, Bulkhead, Endpoints, Factor, Form, Gate, Guard, Hedge, Idempotency, List, OrOff,
    Server, Size, Switch, Text, TextRule, Word, Written, entries,
    parts::Throttle,
    section::{limits, section},
    value::{word_is_written, words},
};
use crate::{
    classifier::Signal,
    diagnostics::{Mistakes, Position},
    yaml::{Body, Node, shortened},
};

const MILLI: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

words! {
    /// What is laid over a delay.
    Jitter { "full" Full, "equal" Equal, "decorrelated" Decorrelated, "none" None }
}

words! {
    /// How a delay grows.
    Growth { "exponential" Exponential, "linear" Linear, "constant" Constant }
}

impl Word for Criticality {
    const ALL: &'static [(&'static str, Self)] = &[
        (Self::Sheddable.as_str(), Self::Sheddable),
        (Self::SheddablePlus.as_str(), Self::SheddablePlus),
        (Self::Critical.as_str(), Self::Critical),
        (Self::CriticalPlus.as_str(), Self::CriticalPlus),
    ];
}
word_is_written!(Criticality);

section! {
    /// How a service is called, and how it serves. `defaults` has the same keys; a key of a service overrides the same key of
    /// `defaults`, also inside nested blocks.
    Service in "a service" {
        /// Attempts after the first that failures may cause.
        "maxRetries" max_retries: u32 where 0..=20 => "10", "a hard limit, for retries that are known to help. While that is \
            unclear, `guard.limitedRetries` bounds them to two. Without a guard that measures it is 2: a second retry sometimes succeeds where the first failed, a third one hardly ever, and retries multiply through layers";
        /// The delay before the first retry, before jitter.
        "initialDelay" initial_delay: Duration where Duration::ZERO..=DAY => "100ms", "longer than a short disturbance of a healthy target, shorter than a person notices";
        /// The largest delay, before jitter.
        "maxDelay" max_delay: Duration where Duration::ZERO..=DAY => "10s", "no caller waits longer between two \
            attempts";
        /// The factor by which an exponential delay grows.
        "multiplier" multiplier: Factor where Ratio::ONE..=Ratio::percent(10_000) => "2", "each round of retries has half the rate of the round before";
        /// How the delay grows from one retry to the next.
        "growth" growth: Growth => "exponential", "with a fixed delay the load stays the same for as long as the target is down";
        /// The random part of the delay: full is uniform from zero to the delay, equal keeps half of it, decorrelated
        /// draws from the delay before.
        "jitter" jitter: Jitter => "full", "the widest spread needs the fewest attempts until all clients are served";
        /// Draws the delay between 1 − factor and 1 + factor times itself; stands in place of `jitter`.
        "jitterFactor" jitter_factor: Factor where Ratio::ZERO..=Ratio::ONE => "", "`jitter: full` spreads wider";
        /// Retries end once the delay, as it grows without `maxDelay`, exceeds this. A periodic client sets it to its
        /// period.
        "stopBeyond" stop_beyond: OrOff<Duration> where MILLI..=DAY => "off", "only periodic work is repeated in any case";
        /// How long one attempt may take.
        "attemptTimeout" attempt_timeout: OrOff<Duration> where MILLI..=DAY => "off", "the right value is the target's own \
            99th percentile, which a default cannot know; the deadline still bounds every attempt";
        /// How long the whole call may take if the caller set nothing shorter.
        "deadline" deadline: OrOff<Duration> where MILLI..=DAY => "10s", "no caller waits longer for an answer, and a bound \
            that is too long is far better than none";
        /// An attempt is not started unless this much time is left for it.
        "leastAttempt" least_attempt: Duration where Duration::ZERO..=DAY => "1ms", "an attempt that cannot end in time \
            is load without a chance of success";
        /// Whether a failure is retried that a layer below has already retried.
        "retryRetried" retry_retried: bool => "false", "retries at more than one layer multiply; one layer is enough";
        /// Whether requests that are not idempotent are retried.
        "retryNonIdempotent" retry_non_idempotent: bool => "false", "a payment made twice is worse than one that \
            failed";
        /// Failures that are retried although they are not retried by default.
        "retryOn" retry_on: List<Signal> => "[]", "what is retried by default follows the rules for safe clients";
        /// Failures that are not retried although they are by default. Overrides the other lists.
        "neverRetryOn" never_retry_on: List<Signal> => "[]", "see `retryOn`";
        /// Failures that count as signs of overload although they do not by default.
        "rejections" rejections: List<Signal> => "[]", "429, 503, RESOURCE_EXHAUSTED, UNAVAILABLE, refused and broken connections and timeouts are signs of overload; a 500 most often is not";
        /// Failures that do not count as signs of overload although they do by default.
        "notRejections" not_rejections: List<Signal> => "[]", "see `rejections`";
        /// Failures that mean that the caller's own quota is used up: never retried, and not a sign of overload.
        "quota" quota: List<Signal> => "[]", "a 429 and a RESOURCE_EXHAUSTED more often mean overload than a used-up quota, and overload that is listed here is hidden from the guard";
        /// The budget.
        "budget" budget: Switch<Budget> => "on", "the only part that bounds the sum of all retries";
        /// The guard.
        "guard" guard: Switch<Guard> => "on", "notices when retries have become the cause of the overload";
        /// The breaker.
        "breaker" breaker: Switch<Breaker> => "on", "calls that cannot succeed fail at once and cost the target nothing";
        /// The throttle.
        "throttle" throttle: Switch<Throttle> => "off", "see the section";
        /// The bulkhead.
        "bulkhead" bulkhead: Switch<Bulkhead> => "", "adaptive where nothing is written; see its keys";
        /// Hedging.
        "hedge" hedge: Switch<Hedge> => "off", "see the section";
        /// Which of several endpoints an attempt goes to.
        "endpoints" endpoints: Switch<Endpoints> => "on", "it acts only where the endpoints are known. If it is off, no endpoint is ejected, but retries still go to another endpoint";
        /// Retry-After and the do-not-retry mark.
        "gate" gate: Gate => "", "always on: what the target asks for is obeyed";
        /// Which requests may be sent twice.
        "idempotency" idempotency: Idempotency => "", "see its keys";
        /// How many bytes of a request body are kept for a retry; a request with a longer body is sent only once.
        "replayLimit" replay_limit: Size where 0..=1024 * 1024 * 1024 => "64KiB", "holds nearly every interactive \
            request; a thousand calls under way keep 64 MiB at most";
        /// Whether requests carry the `retryguard-*` headers. Switch it off for third parties.
        "tags" tags: bool => "true", "deadlines and criticality must reach every hop to protect the services behind the first one, and the services of a policy are usually your own";
        /// How long a response body may pause before it is given up. By default as long as an attempt may take: the shorter
        /// of `attemptTimeout` and `deadline`. The caller's own deadline always ends a body.
        "bodyTimeout" body_timeout: OrOff<Duration> where MILLI..=DAY => "", "a stalled body blocks its caller like a missing answer does; a body that makes progress may be long";
        /// The criticality of calls that do not state one themselves.
        "criticality" criticality: Criticality => "critical", "most calls are made while a person waits; background work must be marked as such";
        /// How often periodic work towards the service is done.
        "period" period: OrOff<Duration> where Duration::from_millis(1)..=DAY => "off", "only a periodic client has one";
        /// Features whose calls are refused: a remote switch.
        "featuresOff" features_off: List<Text> where TextRule::Name => "[]", "nothing is switched off by default";
        /// What the service does under load as a server.
        "server" server: Switch<Server> => "on", "it acts only where the server layer is installed, and a server \
            without a bound fails all requests at once instead of a few";
        /// The services that this service calls to serve a request. Only the linter reads it.
        "calls" calls: List<Text> where TextRule::Name => "[]", "the policy cannot know it";
    }
}

section! {
    /// The whole file.
    Document in "a policy" {
        /// What holds for every service that does not say otherwise, listed or not.
        "defaults" defaults: Service => "", "an empty file is a safe policy";
        /// The services, by name.
        "services" services: Services => "", "an unlisted service takes the defaults";
        /// Whether the gateway at the edge retries as well, by `defaults`.
        "gatewayRetries" gateway_retries: bool => "false", "retries at the edge multiply those of every layer \
            behind it";
        /// How often a policy that comes from a policy server is fetched again.
        "remotePeriod" remote_period: Duration where Duration::from_secs(1)..=DAY => "1m", "a change reaches a fleet within a minute, and ten thousand clients send 170 requests a second, which are answered from a cache";
    }
}

/// The services by name, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Services(pub(crate) Vec<(String, At<Service>)>);

impl Written for Services {
    type Limits = ();

    fn read(node: &Node, key: &str, (): &(), mistakes: &mut Mistakes) -> Option<Self> {
        let mut services = Vec::new();
        for entry in entries(node, key, mistakes)? {
            if !TextRule::Name.allows(&entry.key) {
                let message = format!("the service name `{}`", shortened(&entry.key));
                mistakes.add(entry.at, message, format!("write {}", TextRule::Name.words()));
            }
            if let Some(value) = Service::read(&entry.value, &shortened(&entry.key), &(), mistakes) {
                services.push((entry.key.clone(), At { value, at: entry.at }));
            }
        }
        Some(Self(services))
    }

    /// What stands under each name is described with `defaults`.
    fn form((): &()) -> Form {
        Form::new(
            "a block of service names, each with a block of the keys of a service",
            json!({"type": ["object", "null"]}),
        )
    }
}

/// The written form of a whole file.
pub(crate) fn document(root: &Node, mistakes: &mut Mistakes) -> Document {
    if is_config_map(root) {
        mistakes.add(
            Position::START,
            "this is a Kubernetes ConfigMap and not a policy",
            "give the text that stands under its `data`, such as that of `policy.yaml`, without the indentation",
        );
        return Document::default();
    }
    if is_scenario(root) {
        mistakes.add(
            Position::START,
            "this is a scenario and not a policy",
            "run it with `retryguard simulate`; a policy has `defaults` and `services`",
        );
        return Document::default();
    }
    Document::read(root, "the policy", &(), mistakes).unwrap_or_default()
}

/// Whether the file describes a world: a scenario of services has `clients`, one of devices has `fleets`.
fn is_scenario(root: &Node) -> bool {
    let Body::Map(entries) = &root.body else {
        return false;
    };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    !has("defaults") && (has("clients") || has("fleets") || (has("duration") && has("policies")))
}

fn is_config_map(root: &Node) -> bool {
    let Body::Map(entries) = &root.body else {
        return false;
    };
    entries.iter().any(|entry| {
        entry.key == "kind" && matches!(&entry.value.body, Body::Scalar { text, .. } if text == "ConfigMap")
    })
}
