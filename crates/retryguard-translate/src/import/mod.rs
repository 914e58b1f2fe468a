//! From the file of another system to a policy.

mod aws;
mod envoy;
mod gateway_api;
mod grpc;
mod istio;
mod polly;
mod resilience4j;
mod spring;

use std::time::Duration;

use crate::{
    Beside, Format, Imported, Refused,
    draft::{Draft, Jitter, Service},
    tree::{self, Node},
    units,
};

/// What a reader of one format gives back.
pub(crate) struct Read {
    pub(crate) draft: Draft,
    pub(crate) beside: Beside,
}

/// Reads a file as a policy.
///
/// # Errors
/// If the text is not of this format, or has nothing in it that concerns retries.
pub fn import(text: &str, format: Format) -> Result<Imported, Refused> {
    let read = match format {
        Format::Aws => aws::read(text)?,
        _ => {
            let documents = match format {
                Format::Resilience4j => spring::documents(text)?,
                _ => documents(text)?,
            };
            match format {
                Format::Envoy => envoy::read(&documents),
                Format::Istio => istio::read(&documents),
                Format::GatewayApi => gateway_api::read(&documents),
                Format::Grpc => grpc::read(&documents),
                Format::Resilience4j => resilience4j::read(&documents),
                Format::Polly => polly::read(&documents),
                Format::Aws => unreachable!("read above"),
            }?
        }
    };
    let Read { mut draft, beside } = read;
    let heading = format!(
        "Imported from a file of {format}. What {format} does not have is switched off here, so that lint and\n\
         simulate judge what runs today: remove those lines to get RetryGuard's defaults."
    );
    let (policy, lines) = draft.text(&heading);
    let notes = std::mem::take(&mut draft.notes);
    let mut places = vec![("defaults".to_owned(), draft.defaults.places.clone())];
    places.extend(
        draft
            .services
            .iter()
            .map(|(name, service)| (name.clone(), service.places.clone())),
    );
    let bounded = match beside {
        Beside::ConcurrentRetries { .. } | Beside::Tokens { .. } => {
            draft.without_budgets();
            draft.text(&heading).0
        }
        Beside::None | Beside::SendLimiter => policy.clone(),
    };
    Ok(Imported {
        format,
        policy,
        lines,
        notes,
        beside,
        bounded,
        places,
    })
}

/// The documents of a file. A list of Kubernetes objects, as `kubectl get -o yaml` prints it, counts as its items.
fn documents(text: &str) -> Result<Vec<Node>, Refused> {
    let mut found = Vec::new();
    for document in tree::read(text)? {
        let kind = document.get("kind").and_then(Node::text);
        match document.get("items") {
            Some(items) if kind.is_some_and(|kind| kind.ends_with("List")) => {
                found.extend(items.items().iter().cloned());
            }
            _ => found.push(document),
        }
    }
    Ok(found)
}

pub(crate) fn detect(text: &str) -> Option<Format> {
    if aws::is_it(text) {
        return Some(Format::Aws);
    }
    if spring::is_properties(text) {
        return Some(Format::Resilience4j);
    }
    let documents = documents(text).ok()?;
    let kinds: Vec<&str> = documents
        .iter()
        .filter_map(|document| document.get("kind")?.text())
        .collect();
    if kinds
        .iter()
        .any(|kind| matches!(*kind, "VirtualService" | "DestinationRule"))
    {
        return Some(Format::Istio);
    }
    if kinds.iter().any(|kind| {
        matches!(
            *kind,
            "HTTPRoute" | "XBackendTrafficPolicy" | "BackendTrafficPolicy"
        )
    }) {
        return Some(Format::GatewayApi);
    }
    let has = |key: &str| documents.iter().any(|document| document.get(key).is_some());
    if has("methodConfig") || has("retryThrottling") {
        return Some(Format::Grpc);
    }
    let spring = documents.iter().any(|document| {
        document
            .entries()
            .iter()
            .any(|(key, _, _)| key.split('.').next() == Some("resilience4j"))
    });
    if spring {
        return Some(Format::Resilience4j);
    }
    let ours = documents.iter().any(|document| {
        document
            .entries()
            .iter()
            .any(|(key, _, _)| matches!(key.as_str(), "defaults" | "services"))
    });
    if ours {
        return None;
    }
    if documents.iter().any(envoy::is_it) {
        return Some(Format::Envoy);
    }
    documents.iter().any(polly::is_it).then_some(Format::Polly)
}

/// Envoy's back-off, which Istio and most implementations of the Gateway API use, too: uniform below a delay that begins
/// at the base and doubles up to the cap.
pub(crate) fn envoy_backoff(service: &mut Service, base: Option<Duration>, cap: Option<Duration>) {
    let base = base.unwrap_or(Duration::from_millis(25));
    service.initial = Some(base);
    service.cap = Some(cap.unwrap_or(base.saturating_mul(10)).max(base));
    service.multiplier = Some(2.0);
    service.jitter = Some(Jitter::Full);
}

/// A duration of Go's or protobuf's spelling under a key; what cannot be read is noted.
pub(crate) fn span(node: &Node, key: &str, draft: &mut Draft) -> Option<Duration> {
    span_of(node, key, Duration::from_secs(1), draft)
}

/// The same, with the unit of a bare number.
pub(crate) fn span_of(node: &Node, key: &str, bare: Duration, draft: &mut Draft) -> Option<Duration> {
    let value = node.get(key)?;
    let span = match value.text() {
        Some(text) => units::duration(text, bare),
        // Protobuf's message form: {seconds: 1, nanos: 500000000}.
        None => {
            let part = |key: &str| value.get(key).and_then(Node::whole).unwrap_or(0);
            Some(Duration::new(
                u64::from(part("seconds")),
                part("nanos").min(999_999_999),
            ))
        }
    };
    if span.is_none() {
        let key = node.spelt(key);
        draft.lost(value.line, format!("`{key}` is not a duration that can be read"));
    }
    span
}

/// A whole number, plain or in protobuf's wrapper `{value: 3}`; a value that is not one is noted.
pub(crate) fn whole(node: &Node, key: &str, draft: &mut Draft) -> Option<(u32, u32)> {
    let value = node.get(key)?;
    let found = value.get("value").unwrap_or(value).whole();
    if found.is_none() {
        let key = node.spelt(key);
        draft.lost(value.line, format!("`{key}` is not a whole number"));
    }
    found.map(|number| (number, value.line))
}

/// A number, plain or in a wrapper; a value that is not one is noted.
pub(crate) fn number(node: &Node, key: &str, draft: &mut Draft) -> Option<(f64, u32)> {
    let value = node.get(key)?;
    let found = value.get("value").unwrap_or(value).number();
    if found.is_none() {
        let key = node.spelt(key);
        draft.lost(value.line, format!("`{key}` is not a number"));
    }
    found.map(|number| (number, value.line))
}

/// Notes every key of a block that is not among those that are read.
pub(crate) fn unread(node: &Node, known: &[&str], place: &str, draft: &mut Draft) {
    let known: Vec<String> = known.iter().map(|key| tree::plain(key)).collect();
    for (key, line, _) in node.entries() {
        if !known.contains(&tree::plain(key)) {
            draft.lost(*line, format!("`{key}` of {place} has no key in a policy"));
        }
    }
}

/// The methods of a matcher: `GET`, or a regular expression such as `GET|HEAD`.
pub(crate) fn methods(words: &str) -> Option<Vec<String>> {
    let methods: Vec<String> = words
        .trim_matches(['^', '$', '(', ')'])
        .split('|')
        .map(ToOwned::to_owned)
        .collect();
    let plain = |method: &String| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    methods.iter().all(plain).then_some(methods)
}

pub(crate) fn nothing_found(what: &str) -> Refused {
    Refused {
        line: None,
        message: format!("there is nothing to import: {what}"),
    }
}

/// A bound on the retries that run at the same time, which a policy does not have.
pub(crate) fn concurrent(key: &str, most: u32) -> String {
    format!(
        "at most {most} retries at once (`{key}`); a policy bounds retries by a share of the calls, so its budget is off"
    )
}

/// The keys of an outlier detection that decide whether it acts as a breaker, and how long a sweep takes, which a breaker has none of.
const OUTLIER_KEYS: &[&str] = &[
    "consecutive_5xx",
    "consecutive_5xx_errors",
    "consecutive_gateway_failure",
    "consecutive_gateway_errors",
    "consecutive_errors",
    "enforcing_consecutive_5xx",
    "enforcing_consecutive_gateway_failure",
    "base_ejection_time",
    "max_ejection_percent",
    "min_health_percent",
    "interval",
];

/// The statuses between 400 and 599 of a list; any other value is noted.
pub(crate) fn statuses(node: &Node, key: &str, draft: &mut Draft) -> Vec<u16> {
    let mut found = Vec::new();
    for code in node.get(key).map(Node::items).unwrap_or_default() {
        let status = code.whole().and_then(|code| u16::try_from(code).ok());
        match status.filter(|status| (400..600).contains(status)) {
            Some(status) => found.push(status),
            None => draft.lost(
                code.line,
                format!(
                    "`{}`: {} is not a status between 400 and 599",
                    node.spelt(key),
                    code.text().unwrap_or("a list or an object")
                ),
            ),
        }
    }
    found
}

/// An outlier detection that may take every host out acts as a breaker of the whole target; any other one does not. `failures` are
/// the keys of the counts of failures in a row, with the number that holds where the key is missing; 0 switches a count off.
pub(crate) fn outliers(
    service: &mut Service,
    node: &Node,
    failures: &[(&'static str, Option<u32>)],
    most: &str,
    draft: &mut Draft,
) {
    unread(node, OUTLIER_KEYS, "the outlier detection", draft);
    let counts = failures.iter().filter_map(|(key, usual)| {
        let written = whole(node, key, draft).map(|(number, _)| number);
        let number = written.or(*usual).filter(|number| *number > 0)?;
        Some((number, *key))
    });
    // The one that acts first.
    let Some((number, key)) = counts.min() else {
        draft.lost(
            node.line,
            "the outlier detection does not count failures in a row, and a policy has nothing like its other rules",
        );
        return;
    };
    let open = span(node, "base_ejection_time", draft).unwrap_or(Duration::from_secs(30));
    let percent = whole(node, most, draft).map_or(10, |(percent, _)| percent);
    // Istio's: the detection stops where fewer hosts than these are left.
    let left = whole(node, "min_health_percent", draft).map_or(0, |(left, _)| left.min(100));
    let percent = percent.min(100 - left);
    if percent < 100 {
        draft.lost(
            node.line,
            format!(
                "the outlier detection takes out at most {percent} % of the hosts (after {number} failures in a row, for \
                 {}); a policy's breaker cuts the whole target off, which is something else",
                units::written(open)
            ),
        );
        return;
    }
    service.section("breaker", breaker(number, open));
    service.written("breaker", node.get(key).or(Some(node)));
    draft.changed(
        node.line,
        format!(
            "the outlier detection may take out every host, each after {number} failures in a row: the policy's breaker \
             opens for the target as a whole"
        ),
    );
}

pub(crate) fn breaker(failures: u32, open: Duration) -> String {
    let open = open.clamp(Duration::from_millis(1), Duration::from_secs(3600));
    let open = units::written(open);
    format!(
        "{{trip: consecutive, failures: {}, openFor: {open}, openForAtMost: {open}}}",
        failures.clamp(1, 1_000_000)
    )
}
