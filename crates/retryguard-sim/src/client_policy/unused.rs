//! Keys of a policy that change nothing in the simulator, and why.
//!
//! What is simulated is what will run, so a key that the simulator cannot honour must be named. A test walks every key of
//! the policy's schema: it changes what the simulator reports, or it stands in this list.

use retryguard_policy::reading::{Body, Entry, Node};

/// Keys without effect in the simulator, with the reason. A key under a part is written with a dot.
pub const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "gatewayRetries",
        "the scenario says which services exist and which service calls which",
    ),
    ("remotePeriod", "a policy does not change during a run"),
    ("bodyTimeout", "an answer has no body"),
    (
        "calls",
        "only the linter reads it; the scenario's own `calls` say which service calls which",
    ),
    (
        "criticality",
        "the scenario's clients say how much their calls matter",
    ),
    ("featuresOff", "calls belong to no feature"),
    (
        "gate.noRetryFor",
        "no simulated service sends the mark that forbids retries",
    ),
    ("idempotency.keyHeader", "requests have no headers"),
    (
        "idempotency.methods",
        "the scenario's clients say which requests are idempotent",
    ),
    ("period", "a file of fleets describes periodic clients"),
    ("replayLimit", "a request has no body"),
    (
        "server.deadline",
        "a request that carries no deadline is worked on to its end",
    ),
    ("server.exempt", "requests have no path"),
    ("server.fullTimeout", "no simulated client sends or reads slowly"),
    ("server.holdBodies", "an answer has no body"),
    ("server.trust", "simulated clients do not lie"),
    (
        "server.working",
        "the scenario says how many requests a service works on",
    ),
];

/// The lists whose entries name failures, and the statuses that simulated services answer with.
const LISTS: [&str; 5] = ["retryOn", "neverRetryOn", "rejections", "notRejections", "quota"];
const STATUSES: [&str; 4] = ["400", "500", "503", "504"];

/// What a policy says that changes nothing in the simulator, a sentence for each key.
pub(super) fn notes(root: &Node) -> Vec<String> {
    let mut notes = Vec::new();
    let Body::Map(entries) = &root.body else {
        return notes;
    };
    let whole = entries
        .iter()
        .any(|it| matches!(it.key.as_str(), "defaults" | "services"));
    if whole {
        for entry in entries {
            match (entry.key.as_str(), &entry.value.body) {
                ("defaults", _) => walk(&entry.value, "", &mut notes),
                ("services", Body::Map(services)) => {
                    services
                        .iter()
                        .for_each(|service| walk(&service.value, "", &mut notes));
                }
                _ => note(entry, &entry.key, &mut notes),
            }
        }
    } else {
        walk(root, "", &mut notes);
    }
    notes.dedup();
    notes
}

fn walk(node: &Node, before: &str, notes: &mut Vec<String>) {
    let Body::Map(entries) = &node.body else { return };
    for entry in entries {
        let key = if before.is_empty() {
            entry.key.clone()
        } else {
            format!("{before}.{}", entry.key)
        };
        note(entry, &key, notes);
        walk(&entry.value, &key, notes);
    }
}

fn note(entry: &Entry, key: &str, notes: &mut Vec<String>) {
    if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == key) {
        notes.push(format!("`{key}` has no effect in the simulator: {why}"));
    }
    if !LISTS.contains(&key) {
        return;
    }
    let Body::List(items) = &entry.value.body else {
        return;
    };
    for item in items {
        let Body::Scalar { text, .. } = &item.body else {
            continue;
        };
        let is_status = text.parse::<u16>().is_ok();
        let is_code = text
            .chars()
            .all(|letter| letter.is_ascii_uppercase() || letter == '_');
        if is_status && !STATUSES.contains(&text.as_str()) || is_code {
            notes.push(format!(
                "`{text}` in `{key}` has no effect in the simulator: its services answer 400 (request), 500 (fault), 503 \
                 (overload) and 504 (timeout)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use retryguard_policy::reading::{Mistakes, read};

    use super::*;

    #[test]
    fn keys_are_found_wherever_a_policy_writes_them() {
        let of = |text: &str| notes(&read(text, &mut Mistakes::default()).unwrap());
        assert!(of("maxRetries: 1").is_empty());
        assert_eq!(of("replayLimit: 1KiB").len(), 1);
        assert_eq!(of("defaults: {server: {exempt: [/health]}}").len(), 1);
        assert_eq!(
            of("services: {a: {quota: [429, 503, RESOURCE_EXHAUSTED]}}\nremotePeriod: 2m").len(),
            3
        );
    }
}
