//! The written form: what a file may say, key by key.
//!
//! Each section is declared once (see [`section!`]) with its keys, their types and limits, their defaults and
//! the reason for each default. The reader, the merging of `services` over `defaults`, the JSON schema and the
//! reference page all come from that one declaration, so they cannot drift apart.

mod number;
mod parts;
mod section;
mod service;
mod value;

use serde_json::Value;

use crate::{
    diagnostics::{Mistakes, Position},
    yaml::{Body, Entry, Node, shortened},
};

pub(crate) use number::{Factor, Level, Share, Size, duration, shown};
pub(crate) use parts::{
    Breaker, Budget, BudgetForm, Bulkhead, Endpoints, Gate, Guard, GuardMode, Hedge, Idempotency, LimitForm,
    RetryRate, Server, Throttle, Trip, WhenDown,
};
pub(crate) use service::{Document, Growth, Jitter, Service, document};
pub(crate) use value::{List, OrAdaptive, OrOff, Switch, Text, TextRule, Word};

/// A value and where its key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: Position,
}

/// A type that a key's value can have.
pub(crate) trait Written: Sized + Clone {
    /// What bounds the value beyond its type.
    type Limits;

    /// Reads the value of `key`, or adds a mistake and gives nothing.
    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self>;

    /// This value over the one that `defaults` gives: key by key where it is a section.
    fn over(&self, _base: &Self) -> Self {
        self.clone()
    }

    /// How the value is described.
    fn form(limits: &Self::Limits) -> Form;
}

/// A type's description, for messages, the schema and the reference.
#[derive(Debug)]
pub(crate) struct Form {
    /// What may be written, in words.
    pub(crate) words: String,
    /// The same as a JSON schema.
    pub(crate) schema: Value,
    /// What stands inside, where it is a section.
    pub(crate) section: Option<Outline>,
}

impl Form {
    pub(crate) fn new(words: impl Into<String>, schema: Value) -> Self {
        Self {
            words: words.into(),
            schema,
            section: None,
        }
    }
}

/// A section's description.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) about: String,
    pub(crate) keys: Vec<Key>,
}

/// A key's description.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) about: String,
    /// As it would be written; empty where there is none.
    pub(crate) default: &'static str,
    pub(crate) why: &'static str,
    pub(crate) form: Form,
}

/// The entries of a section. Nothing at all is an empty one: a service that is only named takes the defaults.
pub fn entries<'a>(node: &'a Node, key: &str, mistakes: &mut Mistakes) -> Option<&'a [Entry]> {
    match &node.body {
        Body::Map(entries) => Some(entries),
        _ if node.is_nothing() => Some(&[]),
        _ => {
            mistakes.add(
                node.at,
                format!("`{key}` is {}", node.describe()),
                "write a block of keys under it, indented",
            );
            None
        }
    }
}

/// Adds the mistake of a key that is not known here.
pub fn unknown_key(entry: &Entry, known: &[&'static str], place: &str, mistakes: &mut Mistakes) {
    if mistakes.is_full() {
        return;
    }
    let help = match nearest(&entry.key, known.iter().copied()) {
        _ if known == Document::KEYS && Service::KEYS.contains(&entry.key.as_str()) => {
            "it is a key of a service: write it under `defaults`, or under a service's name in `services`"
                .to_owned()
        }
        Some(near) => format!("did you mean `{near}`?"),
        None if known == Document::KEYS && has_keys_of_a_service(&entry.value) => {
            "if it is the name of a service, write it under `services`".to_owned()
        }
        None if known == Service::KEYS && Document::KEYS.contains(&entry.key.as_str()) => {
            "it stands at the top of the file, beside `services`".to_owned()
        }
        None => format!("known here: {}", known.join(", ")),
    };
    mistakes.add(
        entry.at,
        format!("unknown key `{}` in {place}", shortened(&entry.key)),
        help,
    );
}

fn has_keys_of_a_service(node: &Node) -> bool {
    let Body::Map(entries) = &node.body else {
        return false;
    };
    entries
        .iter()
        .any(|entry| Service::KEYS.contains(&entry.key.as_str()))
}

/// The word nearest to `word`, if one is near enough to be what was meant.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // The distance takes time in the product of the lengths, and no known word is long.
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let plain = word.to_lowercase().replace(['_', '-'], "");
    known
        .into_iter()
        .map(|candidate| {
            let plain_candidate = candidate.to_lowercase().replace(['_', '-'], "");
            (strsim::damerau_levenshtein(&plain, &plain_candidate), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The text of a value that is one word, or a mistake.
pub fn scalar<'a>(
    node: &'a Node,
    key: &str,
    wanted: &str,
    mistakes: &mut Mistakes,
) -> Option<(&'a str, bool)> {
    match &node.body {
        Body::Scalar { text, plain } if !node.is_nothing() => Some((text, *plain)),
        _ => {
            wrong(node, key, wanted, mistakes);
            None
        }
    }
}

/// Adds the mistake of a value that is not what its key wants.
pub fn wrong(node: &Node, key: &str, wanted: &str, mistakes: &mut Mistakes) {
    mistakes.add(
        node.at,
        format!("`{key}` is {}", node.describe()),
        format!("write {wanted}"),
    );
}
