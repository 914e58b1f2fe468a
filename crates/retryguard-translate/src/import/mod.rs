//! From the file of another system to a policy.

mod aws;
mod envoy;
mod gateway_api;
mod grpc;
mod istio;
mod polly;
mod resilience4j;

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
            let documents = tree::read(text)?;
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

pub(crate) fn detect(text: &str) -> Option<Format> {
    if aws::is_it(text) {
        return Some(Format::Aws);
    }
    let documents = tree::read(text).ok()?;
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
            .any(|(key, _, _)| key.starts_with("resilience4j"))
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

/// A whole number, plain or in protobuf's wrapper `{value: 3}`.
pub(crate) fn whole(node: &Node, key: &str) -> Option<(u32, u32)> {
    let value = node.get(key)?;
    let inner = value.get("value").unwrap_or(value);
    inner.whole().map(|number| (number, value.line))
}

/// The same; a value that is not a whole number is noted.
pub(crate) fn whole_or_note(node: &Node, key: &str, draft: &mut Draft) -> Option<(u32, u32)> {
    let found = whole(node, key);
    if let (None, Some(value)) = (found, node.get(key).filter(|value| !value.is_nothing())) {
        let key = node.spelt(key);
        draft.lost(value.line, format!("`{key}` is not a whole number"));
    }
    found
}

/// A number, plain or in a wrapper.
pub(crate) fn number(node: &Node, key: &str) -> Option<(f64, u32)> {
    let value = node.get(key)?;
    let inner = value.get("value").unwrap_or(value);
    inner.number().map(|number| (number, value.line))
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

/// An outlier detection that may take every host out acts as a breaker of the whole target; any other one does not.
pub(crate) fn outliers(service: &mut Service, node: &Node, failures: &str, most: &str, draft: &mut Draft) {
    let number = whole(node, failures).map_or(5, |(number, _)| number);
    let open = span(node, "base_ejection_time", draft).unwrap_or(Duration::from_secs(30));
    let percent = whole(node, most).map_or(10, |(percent, _)| percent);
    // Istio's: the detection stops where fewer hosts than these are left.
    let left = whole(node, "min_health_percent").map_or(0, |(left, _)| left.min(100));
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
    service.written("breaker", node.get(failures).or(Some(node)));
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
