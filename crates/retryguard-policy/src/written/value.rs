//! Values that are words, lists, switches and durations.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::json;

use super::{At, Form, Written, nearest, number, scalar, wrong};
use crate::{
    classifier::Signal,
    diagnostics::Mistakes,
    yaml::{Body, Node, shortened},
};

impl Written for bool {
    type Limits = ();

    fn read(node: &Node, key: &str, limits: &(), mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        match scalar(node, key, &words, mistakes)? {
            ("true", true) => Some(true),
            ("false", true) => Some(false),
            // YAML 1.1 read these as well.
            ("on" | "yes", true) => {
                wrong(node, key, "true", mistakes);
                None
            }
            ("off" | "no", true) => {
                wrong(node, key, "false", mistakes);
                None
            }
            _ => {
                wrong(node, key, &words, mistakes);
                None
            }
        }
    }

    fn form((): &()) -> Form {
        Form::new("true or false", json!({"type": "boolean"}))
    }
}

impl Written for Duration {
    type Limits = RangeInclusive<Duration>;

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, _) = scalar(node, key, &words, mistakes)?;
        let found = number::duration(text);
        if found.is_none_or(|span| !limits.contains(&span)) {
            wrong(node, key, &words, mistakes);
            return None;
        }
        found
    }

    fn form(limits: &Self::Limits) -> Form {
        let (least, most) = (number::shown(*limits.start()), number::shown(*limits.end()));
        Form::new(
            format!("a duration from {least} to {most}, such as 100ms, 1.5s or 2m"),
            json!({"anyOf": [{"type": "string", "pattern": number::DURATION_PATTERN}, {"const": 0}]}),
        )
    }
}

/// A value, or the word `off`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrOff<T>(pub(crate) Option<T>);

impl<T: Written> Written for OrOff<T> {
    type Limits = T::Limits;

    fn read(node: &Node, key: &str, limits: &T::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        if is_off(node) {
            return Some(Self(None));
        }
        // The error for a wrong value lists `off` among the possible values.
        let mut inner = Mistakes::default();
        let value = T::read(node, key, limits, &mut inner);
        if value.is_none() {
            wrong(node, key, &Self::form(limits).words, mistakes);
        }
        value.map(|value| Self(Some(value)))
    }

    fn form(limits: &T::Limits) -> Form {
        let Form { words, schema, .. } = T::form(limits);
        Form::new(
            format!("{words}; or off"),
            json!({"anyOf": [schema, {"enum": ["off", false]}]}),
        )
    }
}

/// A value, or the word `adaptive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrAdaptive<T>(pub(crate) Option<T>);

impl<T: Written> Written for OrAdaptive<T> {
    type Limits = T::Limits;

    fn read(node: &Node, key: &str, limits: &T::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        if matches!(&node.body, Body::Scalar { text, .. } if text == "adaptive") {
            return Some(Self(None));
        }
        // The error for a wrong value lists the word among the possible values.
        let mut inner = Mistakes::default();
        let value = T::read(node, key, limits, &mut inner);
        if value.is_none() {
            wrong(node, key, &Self::form(limits).words, mistakes);
        }
        value.map(|value| Self(Some(value)))
    }

    fn form(limits: &T::Limits) -> Form {
        let Form { words, schema, .. } = T::form(limits);
        Form::new(
            format!("{words}; or adaptive"),
            json!({"anyOf": [schema, {"const": "adaptive"}]}),
        )
    }
}

/// A part of the composition that can be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Switch<S> {
    Off,
    On(S),
}

impl<S> Switch<S> {
    pub(crate) fn on(&self) -> Option<&S> {
        match self {
            Self::Off => None,
            Self::On(section) => Some(section),
        }
    }
}

impl<S: Written<Limits = ()> + Default> Written for Switch<S> {
    type Limits = ();

    fn read(node: &Node, key: &str, limits: &(), mistakes: &mut Mistakes) -> Option<Self> {
        if is_off(node) {
            return Some(Self::Off);
        }
        match &node.body {
            Body::Map(_) => S::read(node, key, limits, mistakes).map(Self::On),
            Body::Scalar { text, .. } if matches!(text.as_str(), "on" | "true") => {
                Some(Self::On(S::default()))
            }
            _ => {
                wrong(node, key, "on, off, or a block of keys under it", mistakes);
                None
            }
        }
    }

    fn over(&self, base: &Self) -> Self {
        match (self, base) {
            (Self::On(own), Self::On(base)) => Self::On(own.over(base)),
            _ => self.clone(),
        }
    }

    fn form(limits: &()) -> Form {
        let form = S::form(limits);
        Form {
            words: "on, off, or a block of keys".to_owned(),
            schema: json!({"anyOf": [form.schema, {"enum": ["on", "off", true, false]}]}),
            section: form.section,
        }
    }
}

/// `off`, and `false` because YAML 1.1 reads `off` as false.
fn is_off(node: &Node) -> bool {
    matches!(&node.body, Body::Scalar { text, .. } if matches!(text.as_str(), "off" | "false"))
}

/// A closed list of words.
pub(crate) trait Word: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
}

/// Declares a closed list of words.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $($word:literal $variant:ident),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($variant),+
        }

        impl $crate::written::Word for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }

        $crate::written::value::word_is_written!($name);
    };
}

/// Lets a list of words be a key's value.
macro_rules! word_is_written {
    ($name:ty) => {
        impl $crate::written::Written for $name {
            type Limits = ();

            fn read(
                node: &$crate::yaml::Node,
                key: &str,
                (): &(),
                mistakes: &mut $crate::diagnostics::Mistakes,
            ) -> Option<Self> {
                $crate::written::value::read_word(node, key, mistakes)
            }

            fn form((): &()) -> $crate::written::Form {
                $crate::written::value::word_form::<Self>()
            }
        }
    };
}

pub(crate) use {word_is_written, words};

pub(crate) fn read_word<W: Word>(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<W> {
    let wanted = word_form::<W>().words;
    let (text, _) = scalar(node, key, &wanted, mistakes)?;
    let found = W::ALL.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let near = nearest(text, W::ALL.iter().map(|(word, _)| *word));
        let help = near.map_or_else(
            || format!("write {wanted}"),
            |near| format!("did you mean `{near}`? write {wanted}"),
        );
        mistakes.add(node.at, format!("`{key}` is `{}`", shortened(text)), help);
    }
    found.map(|(_, value)| *value)
}

pub(crate) fn word_form<W: Word>() -> Form {
    let all: Vec<&str> = W::ALL.iter().map(|(word, _)| *word).collect();
    let words = match all.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => all.join(""),
    };
    Form::new(words, json!({"enum": all}))
}

/// A list, each entry with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<At<T>>);

impl<T: Clone> List<T> {
    /// The most entries of a list. No service calls that many others.
    const LONGEST: usize = 1000;

    pub(crate) fn values(&self) -> Vec<T> {
        self.0.iter().map(|entry| entry.value.clone()).collect()
    }
}

impl<T: Written + PartialEq> Written for List<T> {
    type Limits = T::Limits;

    fn read(node: &Node, key: &str, limits: &T::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let Body::List(nodes) = &node.body else {
            wrong(node, key, &Self::form(limits).words, mistakes);
            return None;
        };
        if nodes.len() > Self::LONGEST {
            let message = format!("`{key}` has {} entries", nodes.len());
            mistakes.add(node.at, message, format!("write at most {}", Self::LONGEST));
            return None;
        }
        let mut entries: Vec<At<T>> = Vec::new();
        for node in nodes {
            let Some(value) = T::read(node, key, limits, mistakes) else {
                continue;
            };
            if entries.iter().any(|entry| entry.value == value) {
                mistakes.add(
                    node.at,
                    format!("{} is listed twice", node.describe()),
                    "remove one of them",
                );
            }
            entries.push(At { value, at: node.at });
        }
        Some(Self(entries))
    }

    fn form(limits: &T::Limits) -> Form {
        let Form { words, schema, .. } = T::form(limits);
        Form::new(
            format!("a list; each entry: {words}"),
            json!({"type": "array", "items": schema, "maxItems": Self::LONGEST}),
        )
    }
}

impl Written for Signal {
    type Limits = ();

    fn read(node: &Node, key: &str, (): &(), mistakes: &mut Mistakes) -> Option<Self> {
        let (text, _) = scalar(node, key, Self::VALUES, mistakes)?;
        let found = Self::from_word(text);
        if found.is_none() {
            let help = nearest(text, Self::words()).map_or_else(
                || format!("write {}", Self::VALUES),
                |near| format!("did you mean `{near}`?"),
            );
            mistakes.add(node.at, format!("`{key}` lists `{}`", shortened(text)), help);
        }
        found
    }

    fn form((): &()) -> Form {
        let words: Vec<&str> = Self::words().collect();
        Form::new(
            "a status, 4xx, 5xx, a gRPC code or a kind",
            json!({"anyOf": [{"type": "integer", "minimum": 400, "maximum": 599}, {"enum": words}]}),
        )
    }
}

/// A name, bounded in its letters and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

/// What a name may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRule {
    /// A service or a feature: printable and without blanks, because it becomes a metric label.
    Name,
    /// An HTTP method in capitals.
    Method,
    /// An HTTP header in small letters.
    Header,
    /// The path of a URL.
    Path,
}

impl TextRule {
    pub(crate) const LONGEST: usize = 128;

    pub(crate) fn allows(self, text: &str) -> bool {
        let letter = |byte: u8| match self {
            Self::Name => byte.is_ascii_graphic(),
            Self::Method => byte.is_ascii_uppercase() || byte == b'-',
            Self::Header => byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
            Self::Path => byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'),
        };
        let begins = self != Self::Path || text.starts_with('/');
        (1..=Self::LONGEST).contains(&text.len()) && text.bytes().all(letter) && begins
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Name => "a name of up to 128 printable ASCII characters without blanks",
            Self::Method => "an HTTP method in capitals, such as GET",
            Self::Header => "the name of an HTTP header in small letters",
            Self::Path => "a path that begins with /, of up to 128 characters",
        }
    }

    const fn pattern(self) -> &'static str {
        match self {
            Self::Name => "^[!-~]{1,128}$",
            Self::Method => "^[A-Z-]{1,128}$",
            Self::Header => "^[a-z0-9-]{1,128}$",
            Self::Path => r"^/[!-~]{0,127}$",
        }
    }
}

impl Written for Text {
    type Limits = TextRule;

    fn read(node: &Node, key: &str, rule: &TextRule, mistakes: &mut Mistakes) -> Option<Self> {
        let (text, _) = scalar(node, key, rule.words(), mistakes)?;
        if !rule.allows(text) {
            wrong(node, key, rule.words(), mistakes);
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn form(rule: &TextRule) -> Form {
        Form::new(rule.words(), json!({"type": "string", "pattern": rule.pattern()}))
    }
}
