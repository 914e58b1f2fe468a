//! A policy file in which keys are replaced.

use std::fmt::Write as _;

use retryguard_policy::{
    Position,
    reading::{Body, Entry, Mistakes, Node, nearest, read},
};

use super::Problem;

/// A policy file, and the block of it whose keys are searched.
#[derive(Debug, Clone)]
pub(super) struct PolicyFile {
    root: Node,
    /// The service whose block it is; `None` for `defaults`.
    service: Option<String>,
}

impl PolicyFile {
    pub(super) fn new(text: &str, service: Option<&str>) -> Result<Self, Problem> {
        let mut mistakes = Mistakes::default();
        let root = read(text, &mut mistakes).filter(|root| !root.is_nothing());
        mistakes
            .or(())
            .map_err(|mistakes| Problem::Policy(mistakes.to_string()))?;
        let file = Self {
            root: root.unwrap_or_else(|| map(Vec::new())),
            service: service.map(str::to_owned),
        };
        if let Some(name) = service {
            let known: Vec<&str> = file.services().map(|entry| entry.key.as_str()).collect();
            if !known.contains(&name) {
                return Err(Problem::UnknownService {
                    name: name.to_owned(),
                    help: match nearest(name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None if known.is_empty() => {
                            "the policy lists none; leave --service out to search `defaults`".to_owned()
                        }
                        None => format!("give one of {}", known.join(", ")),
                    },
                });
            }
        }
        Ok(file)
    }

    /// What the searched block says of a key.
    pub(super) fn written(&self, key: &str) -> Option<&Node> {
        find(self.block()?, key)
    }

    /// Whether the block of this service says the whole of a key, so that `defaults` do not matter to it.
    pub(super) fn overrides(&self, service: &str, key: &str) -> bool {
        let own = self.services().find(|entry| entry.key == service);
        own.and_then(|entry| find(&entry.value, key))
            .is_some_and(|value| !matches!(value.body, Body::Map(_)))
    }

    /// The file with these keys of the searched block in place of what stands there; `None` takes a key out.
    pub(super) fn with(&self, keys: &[(&str, Option<&Node>)]) -> String {
        let mut root = self.root.clone();
        let block = match &self.service {
            None => child(&mut root, "defaults"),
            Some(name) => child(child(&mut root, "services"), name),
        };
        let entries = entries_of(block);
        for (key, value) in keys {
            let place = entries.iter().position(|entry| entry.key == *key);
            match (place, value) {
                (Some(place), Some(value)) => entries[place].value = (*value).clone(),
                (Some(place), None) => {
                    entries.remove(place);
                }
                (None, Some(value)) => entries.push(entry(key, (*value).clone())),
                (None, None) => (),
            }
        }
        let mut text = String::new();
        write(&mut text, &root, 0);
        text
    }

    fn block(&self) -> Option<&Node> {
        match &self.service {
            None => find(&self.root, "defaults"),
            Some(name) => find(find(&self.root, "services")?, name),
        }
    }

    fn services(&self) -> impl Iterator<Item = &Entry> {
        let entries = match find(&self.root, "services").map(|node| &node.body) {
            Some(Body::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter()
    }
}

/// The value of a key that is written as a policy writes it.
pub(super) fn value(text: &str) -> Node {
    read(text, &mut Mistakes::default()).expect("the values of the search are YAML")
}

/// A value on one line.
pub(super) fn line(node: &Node) -> String {
    match &node.body {
        Body::Scalar { text, plain: true } => text.clone(),
        Body::Scalar { text, .. } => quoted(text),
        Body::List(items) => {
            let items: Vec<String> = items.iter().map(line).collect();
            format!("[{}]", items.join(", "))
        }
        Body::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}: {}", name(&entry.key), line(&entry.value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn write(text: &mut String, node: &Node, depth: usize) {
    let Body::Map(entries) = &node.body else { return };
    for entry in entries {
        let (indent, key) = ("  ".repeat(depth), name(&entry.key));
        // Writing to a string does not fail.
        let _ = match &entry.value.body {
            Body::Map(inner) if !inner.is_empty() => {
                let _ = writeln!(text, "{indent}{key}:");
                write(text, &entry.value, depth + 1);
                Ok(())
            }
            _ => writeln!(text, "{indent}{key}: {}", line(&entry.value)),
        };
    }
}

/// A key as it is written: in quotes unless it is a plain word.
fn name(key: &str) -> String {
    let is_plain = key.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && key
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if is_plain { key.to_owned() } else { quoted(key) }
}

/// JSON's escapes are YAML's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn find<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Body::Map(entries) = &node.body else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key == key)
        .map(|entry| &entry.value)
}

/// The block under a key, which is made where it is missing.
fn child<'n>(node: &'n mut Node, key: &str) -> &'n mut Node {
    let entries = entries_of(node);
    let place = entries
        .iter()
        .position(|entry| entry.key == key)
        .unwrap_or_else(|| {
            entries.push(entry(key, map(Vec::new())));
            entries.len() - 1
        });
    &mut entries[place].value
}

fn entries_of(node: &mut Node) -> &mut Vec<Entry> {
    if !matches!(node.body, Body::Map(_)) {
        node.body = Body::Map(Vec::new());
    }
    let Body::Map(entries) = &mut node.body else {
        unreachable!("it was made a block above")
    };
    entries
}

fn entry(key: &str, value: Node) -> Entry {
    Entry {
        key: key.to_owned(),
        at: Position::START,
        value,
    }
}

fn map(entries: Vec<Entry>) -> Node {
    Node {
        at: Position::START,
        body: Body::Map(entries),
    }
}

#[cfg(test)]
mod tests {
    use retryguard_policy::Policy;

    use super::*;

    const TEXT: &str = "defaults: {maxRetries: 4, budget: off}\nservices:\n  pay-1: {maxRetries: 1, calls: [\"7\"], server: {exempt: [/x]}}\n  \"7\": {}\n";

    #[test]
    fn keys_are_replaced_and_the_rest_stays() {
        let file = PolicyFile::new(TEXT, None).unwrap();
        let same = file.with(&[]);
        let digest = |text: &str| Policy::parse(text).unwrap().digest().to_owned();
        assert_eq!(digest(TEXT), digest(&same), "{same}");
        let other = file.with(&[
            ("maxRetries", None),
            ("budget", Some(&value("{percent: 10%}"))),
            ("jitter", Some(&value("equal"))),
        ]);
        assert_eq!(
            other.lines().take(4).collect::<Vec<_>>(),
            ["defaults:", "  budget:", "    percent: 10%", "  jitter: equal"]
        );
        assert!(file.overrides("pay-1", "maxRetries") && !file.overrides("7", "maxRetries"));
        let file = PolicyFile::new(TEXT, Some("7")).unwrap();
        let other = file.with(&[("maxRetries", Some(&value("3")))]);
        assert_eq!(Policy::parse(&other).unwrap().service("7").target.call.retries, 3);
    }

    #[test]
    fn an_empty_file_and_unknown_services() {
        let file = PolicyFile::new("# nothing yet\n", None).unwrap();
        assert_eq!(
            file.with(&[("maxRetries", Some(&value("1")))]),
            "defaults:\n  maxRetries: 1\n"
        );
        let wrong = |text: &str, service: &str| PolicyFile::new(text, Some(service)).unwrap_err().to_string();
        assert!(wrong(TEXT, "pay-2").ends_with("did you mean `pay-1`?"));
        assert!(wrong("", "pay").contains("leave --service out"));
    }
}
