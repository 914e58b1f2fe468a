//! The configuration of a Spring Boot application: properties or YAML, with several documents, keys with dots and placeholders.

use crate::{
    Refused,
    draft::Draft,
    tree::{self, Body, DEEPEST, Node, plain},
};

/// The key below which everything stands.
const ROOT: &str = "resilience4j";

/// Whether a text has lines such as `resilience4j.retry.instances.payments.max-attempts=3`.
pub(super) fn is_properties(text: &str) -> bool {
    // A key with dots and a colon is YAML as well, and read as such.
    text.lines().any(|line| {
        let key = line
            .trim_start_matches('\u{feff}')
            .split('=')
            .next()
            .unwrap_or_default();
        let plain = !key.trim().contains([' ', ':', '{', '"']);
        key.len() < line.len() && plain && key.trim().starts_with("resilience4j.")
    })
}

/// The documents of a file of either kind.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Refused> {
    if !is_properties(text) {
        return tree::read(text);
    }
    let mut documents = Vec::new();
    let mut entries = Vec::new();
    for (line, key, value) in properties(text) {
        if key == "---" {
            let body = Body::Map(std::mem::take(&mut entries));
            documents.push(Node { line, body });
            continue;
        }
        let body = Body::Scalar {
            text: value.to_owned(),
        };
        entries.push((key.to_owned(), line, Node { line, body }));
    }
    let body = Body::Map(entries);
    documents.push(Node { line: 1, body });
    Ok(documents)
}

/// The assignments of a properties file. `#---` begins a document, which is given as the key `---`.
fn properties(text: &str) -> impl Iterator<Item = (u32, &str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1u32..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.trim();
        if matches!(line, "#---" | "!---") {
            return Some((number, "---", ""));
        }
        if line.is_empty() || line.starts_with(['#', '!']) {
            return None;
        }
        let (key, value) = assignment(line);
        Some((number, key, value))
    })
}

/// Key and value of a line: they stand apart by `=`, `:` or white space, as Java reads them.
fn assignment(line: &str) -> (&str, &str) {
    let end = line
        .find(|letter: char| matches!(letter, '=' | ':') || letter.is_whitespace())
        .unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim())
}

/// All documents as one, later ones over earlier ones: keys with dots are opened, and placeholders have their defaults.
pub(super) fn settings(documents: &[Node], draft: &mut Draft) -> Node {
    let mut settings = Vec::new();
    for document in documents {
        let mut spring = Vec::new();
        let mut found = false;
        for (key, line, value) in document.entries() {
            let first = plain(split(key).0);
            if first == ROOT {
                found = true;
                let (key, value) = opened(key, *line, value.clone(), 0, draft);
                join(&mut settings, key, *line, value);
            } else if first == "spring" {
                let (key, value) = opened(key, *line, value.clone(), 0, &mut Draft::default());
                join(&mut spring, key, *line, value);
            }
        }
        let spring = Node {
            line: document.line,
            body: Body::Map(spring),
        };
        let profile = spring
            .at(&["spring", "config", "activate", "on_profile"])
            .or_else(|| spring.at(&["spring", "profiles"]));
        if let (true, Some(profile)) = (found, profile) {
            draft.changed(
                profile.line,
                format!(
                    "the settings of the profile `{}` are read over the others, as if it were active",
                    profile.text().unwrap_or_default()
                ),
            );
        }
    }
    Node {
        line: 1,
        body: Body::Map(settings),
    }
}

/// The first part of a key that may be a path, and the value below it.
fn opened(key: &str, line: u32, value: Node, depth: usize, draft: &mut Draft) -> (String, Node) {
    let (first, rest) = split(key);
    let body = match (rest, value.body) {
        (Some(rest), body) if depth < DEEPEST => {
            let value = Node {
                line: value.line,
                body,
            };
            let (key, value) = opened(rest, line, value, depth + 1, draft);
            Body::Map(vec![(key, line, value)])
        }
        (None, Body::Map(entries)) if depth < DEEPEST => {
            let mut inner = Vec::new();
            for (key, line, value) in entries {
                let (key, value) = opened(&key, line, value, depth + 1, draft);
                join(&mut inner, key, line, value);
            }
            Body::Map(inner)
        }
        (None, Body::Scalar { text }) => Body::Scalar {
            text: filled(text, value.line, draft),
        },
        (_, body) => body,
    };
    let line = value.line;
    (first.to_owned(), Node { line, body })
}

/// `${NAME:3}` is 3 where the environment does not say otherwise.
fn filled(text: String, line: u32, draft: &mut Draft) -> String {
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let Some((_, usual)) = inner.and_then(|inner| inner.split_once(':')) else {
        return text;
    };
    draft.changed(line, format!("`{text}` is read as its default, `{usual}`"));
    usual.to_owned()
}

/// Sets what stands under a key. Two blocks become one; of two other values the later one counts.
fn join(entries: &mut Vec<(String, u32, Node)>, key: String, line: u32, value: Node) {
    let known = entries
        .iter_mut()
        .find(|(known, ..)| *known == key || plain(known) == plain(&key));
    let Some((_, at, known)) = known else {
        entries.push((key, line, value));
        return;
    };
    match (&mut known.body, value) {
        (
            Body::Map(known),
            Node {
                body: Body::Map(more),
                ..
            },
        ) => {
            for (key, line, value) in more {
                join(known, key, line, value);
            }
        }
        (_, value) => {
            *at = line;
            *known = value;
        }
    }
}

/// The first part of a path and the rest. A name in brackets may hold dots: `instances.[orders.eu].max-attempts`.
fn split(key: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = key.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return (name, rest.strip_prefix('.'));
    }
    match key.find(['.', '[']) {
        Some(0) | None => (key, None),
        Some(at) => {
            let rest = &key[at..];
            (&key[..at], Some(rest.strip_prefix('.').unwrap_or(rest)))
        }
    }
}
