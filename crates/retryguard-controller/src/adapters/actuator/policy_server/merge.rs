//! A decision written into a policy: the file stays what its author wrote but for the retries of one service.

use std::fmt::Write as _;

use retryguard_core::Ratio;
use retryguard_policy::{
    Diagnostics, Policy, Position,
    reading::{Body, Entry, Mistakes, Node, read},
};

use crate::domain::state::RetryState;

/// The text with every decision in it. Without any it is the author's own, comments and all.
pub(super) fn merged<'a>(
    text: &str,
    policy: &Policy,
    decisions: impl IntoIterator<Item = (&'a str, RetryState)>,
) -> Result<String, Diagnostics> {
    let mut mistakes = Mistakes::default();
    let root = read(text, &mut mistakes);
    let Some(mut root) = mistakes.or(root)? else {
        return Ok(text.to_owned());
    };
    let mut changed = false;
    for (service, desired) in decisions {
        let written = policy.service(service).target.call.retries.into();
        let Some(retries) = retries(written, desired) else {
            continue;
        };
        let services = under(&mut root, "services");
        let own = under(services, service);
        *under(own, "maxRetries") = plain(&retries.to_string());
        *under(own, "hedge") = plain("off");
        changed = true;
    }
    if !changed {
        return Ok(text.to_owned());
    }
    let mut out = String::from("# Retries of some services are held by the controller at present.\n");
    write(&root, 0, &mut out);
    Ok(out)
}

/// How many retries a desired state leaves of those that are written; `None` for all. A step of the ramp rounds up: a
/// ramp that rounds to nothing would not be one.
pub(super) fn retries(written: u32, desired: RetryState) -> Option<u32> {
    match desired {
        RetryState::Original => None,
        RetryState::Off => Some(0),
        RetryState::Part { share, .. } => {
            let parts = u64::from(written) * share.parts();
            let left = parts.div_ceil(Ratio::PARTS);
            Some(u32::try_from(left).unwrap_or(written).min(written))
        }
    }
}

fn plain(text: &str) -> Node {
    Node {
        at: Position::START,
        body: Body::Scalar {
            text: text.to_owned(),
            plain: true,
        },
    }
}

/// The value of a key, made where it is missing.
fn under<'a>(node: &'a mut Node, key: &str) -> &'a mut Node {
    if !matches!(node.body, Body::Map(_)) {
        node.body = Body::Map(Vec::new());
    }
    let Body::Map(entries) = &mut node.body else {
        unreachable!("made a map above");
    };
    let place = entries
        .iter()
        .position(|entry| entry.key == key)
        .unwrap_or_else(|| {
            entries.push(Entry {
                key: key.to_owned(),
                at: Position::START,
                value: Node {
                    at: Position::START,
                    body: Body::Map(Vec::new()),
                },
            });
            entries.len() - 1
        });
    &mut entries[place].value
}

/// As a block; what was plain stays plain, and everything else is quoted.
fn write(node: &Node, depth: usize, out: &mut String) {
    match &node.body {
        Body::Map(entries) => {
            for entry in entries {
                indent(depth, out);
                // Writing to a string does not fail.
                let _ = write!(out, "{}:", quoted(&entry.key));
                value(&entry.value, depth, out);
            }
        }
        Body::List(items) => {
            for item in items {
                indent(depth, out);
                out.push('-');
                value(item, depth, out);
            }
        }
        Body::Scalar { .. } => value(node, depth, out),
    }
}

fn value(node: &Node, depth: usize, out: &mut String) {
    match &node.body {
        Body::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Body::List(items) if items.is_empty() => out.push_str(" []\n"),
        Body::Map(_) | Body::List(_) => {
            out.push('\n');
            write(node, depth + 1, out);
        }
        Body::Scalar { text, plain } => {
            out.push(' ');
            if *plain && !text.contains(['\n', '\r']) {
                out.push_str(text);
            } else {
                out.push_str(&quoted(text));
            }
            out.push('\n');
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// JSON's quotes are YAML's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\ndefaults: {maxRetries: 3, deadline: 1.5s}\nservices:\n  payments:\n    maxRetries: 2\n    idempotency: {addKeys: true}\n    calls: [ledger, 'audit']\n";

    fn with(desired: RetryState) -> Policy {
        let policy = Policy::parse(TEXT).unwrap();
        let text = merged(TEXT, &policy, [("payments", desired), ("other", desired)]).unwrap();
        Policy::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
    }

    #[test]
    fn off_is_no_retries_and_nothing_else_changes() {
        let (before, after) = (Policy::parse(TEXT).unwrap(), with(RetryState::Off));
        let (was, is) = (before.service("payments"), after.service("payments"));
        assert_eq!(is.target.call.retries, 0);
        assert_eq!(after.service("other").target.call.retries, 0);
        assert_eq!(after.service("third").target.call.retries, 3);
        assert_eq!(is.idempotency, was.idempotency);
        assert_eq!(is.calls, was.calls);
        assert_eq!(is.target.call.deadline, was.target.call.deadline);
    }

    #[test]
    fn the_ramp_gives_back_step_by_step() {
        let part = |percent| RetryState::Part {
            step: 0,
            share: Ratio::percent(percent),
        };
        assert_eq!(
            [12, 25, 50, 75, 100].map(|percent| retries(5, part(percent))),
            [1, 2, 3, 4, 5].map(Some)
        );
        assert_eq!(retries(0, part(50)), Some(0));
        assert_eq!(with(part(50)).service("payments").target.call.retries, 1);
    }

    #[test]
    fn without_a_decision_the_text_is_the_authors() {
        let policy = Policy::parse(TEXT).unwrap();
        assert_eq!(
            merged(TEXT, &policy, [("payments", RetryState::Original)]).unwrap(),
            TEXT
        );
    }

    /// Every policy of this repository survives being written anew.
    #[test]
    fn every_policy_can_carry_a_decision() {
        let folder = format!("{}/../../policies", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let policy = Policy::parse(&text).unwrap();
            let text = merged(&text, &policy, [("a-new-one", RetryState::Off)]).unwrap();
            let after =
                Policy::parse(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}\n{text}", path.display()));
            for (name, service) in policy.services() {
                assert_eq!(after.service(name).target.call, service.target.call, "{name}");
            }
        }
    }
}
